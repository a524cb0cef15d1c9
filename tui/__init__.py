"""phasetop.tui: what people see. Everything here draws a Session as of a cursor; nothing here measures.

What lives here: the app, one module a pane, the theme and the key table, and pure models (wrapping, lanes, the frame) that
know no Textual. To add a pane: compute its content into `frame.Frame`, draw it in a module of its own, give it a place in
`layout`, rows in `fitting`, a call in `painter`, and its keys a row in the key table (docs/architecture.md has the steps).
"""

if __name__ != "phasetop.tui":
    raise ImportError("import phasetop.tui, not tui")
