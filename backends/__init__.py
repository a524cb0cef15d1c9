"""phasetop.backends: where events come from, all of it run in the collector's process.

What lives here: the collector itself, the transport that stamps arrivals, one module a server kind (a pure parser from
bytes to events beside the requests that feed it), and the samplers of this machine's counters. To add a server: write a
`StreamParser` and a `Backend` (`protocol`), put the backend into `registry.BUILT_IN`, or name it in the entry point
group ``phasetop.backends`` from a package of your own.
"""

if __name__ != "phasetop.backends":
    raise ImportError("import phasetop.backends, not backends")
