"""How one cache is made: its cells, streams and layers, and what they take."""

from __future__ import annotations

from msgspec import Struct

from phasetop.kv.archs import Compressed
from phasetop.kv.hparams import Hparams, lacks
from phasetop.kv.options import OptionsError, Resolved, padded


class Cache(Struct, frozen=True):
    """One cache: each of `streams` has `cells`, and a cell holds K and V of one token (`ratio`: of several) in each layer.

    Attributes:
        layers: (layer, elements of K, elements of V) of a cell.
        k_bytes, v_bytes: of all its cells.
        window: how many tokens its layers attend to; None: all. chunked: those since the last multiple of it.

    """

    name: str
    cells: int
    streams: int
    layers: tuple[tuple[int, int, int], ...]
    k_bytes: int
    v_bytes: int
    window: int | None = None
    chunked: bool = False
    ratio: int = 1

    @property
    def total_bytes(self) -> int:
        """K and V of all cells."""
        return self.k_bytes + self.v_bytes

    @property
    def cell_bytes(self) -> int:
        """One cell in all its layers."""
        return self.total_bytes // (self.cells * self.streams)


class Windowed(Struct, frozen=True):
    """Which layers have a window, how wide."""

    width: int
    layers: tuple[bool, ...]
    chunked: bool


class Maker(Struct, frozen=True):
    """Makes caches of one model for one server."""

    h: Hparams
    options: Resolved
    swa: Windowed | None
    latent: bool
    flash: bool

    def k_elements(self, il: int) -> int:
        """Of one cell."""
        return self.k_head(il) * self.h.kv_heads[il]

    def k_head(self, il: int) -> int:
        """A head's key in a layer."""
        return self.h.key_window if self.swa is not None and self.swa.layers[il] else self.h.key

    def v_head(self, il: int) -> int:
        """A head's value in a layer."""
        return self.h.value_window if self.swa is not None and self.swa.layers[il] else self.h.value

    def v_elements(self, il: int) -> int:
        """Of one cell; transposed, every layer is as wide as the widest."""
        if self.latent:
            return 0
        if self.flash:
            return self.v_head(il) * self.h.kv_heads[il]
        return max(self.v_head(each) * self.h.kv_heads[each] for each in range(self.h.layers))

    def refuse(self) -> None:
        """Raise `OptionsError` for what llama.cpp refuses when it makes a context."""
        options = self.options
        if self.latent and options.type_k != options.type_v:
            raise OptionsError(
                f"llama.cpp refuses this: {self.h.arch} keeps K and V as one, so their types must be the same"
            )
        if options.v.quantised and not self.flash:
            raise OptionsError(
                f"llama.cpp refuses this: a V cache of {options.type_v} needs flash attention (-fa on or auto)"
            )
        for kind, head, name in ((options.k, self.k_head, "key"), (options.v, self.v_head, "value")):
            odd = next((head(il) for il in range(self.h.trunk) if head(il) % kind.block), None)
            if odd is not None and self.flash:
                text = f"a head's {name} of {odd} numbers is no whole number of {kind.name.lower()} blocks of {kind.block}"
                raise OptionsError(f"llama.cpp refuses this: {text}")

    def cache(self, name: str, layers: list[int]) -> Cache:
        """A cache as long as the context."""
        elements = [(il, self.k_elements(il), self.v_elements(il)) for il in layers]
        return self.sized(name, self.options.n_ctx_seq, elements)

    def window(self, layers: list[int]) -> Cache:
        """The cache of the layers with a window."""
        assert self.swa is not None
        o = self.options
        streams = 1 if o.kv_unified else o.n_seq_max
        cells = self.window_cells(many=o.n_seq_max if o.kv_unified else 1)
        elements = [(il, self.k_elements(il), self.v_elements(il)) for il in layers]
        return self.sized("swa", cells, elements, streams=streams, windowed=True)

    def window_cells(self, *, many: int) -> int:
        """Cells of a window, for ``many`` sequences in one stream."""
        assert self.swa is not None
        if self.options.swa_full:
            return self.options.n_ctx_seq
        return padded(min(self.options.n_ctx_seq, self.swa.width * many + self.options.n_ubatch))

    def index(self, name: str, layers: list[int], width: int, *, values: bool) -> Cache:
        """An indexer's keys: one head, as wide as it says (in a layer with a window, as wide as there)."""
        windowed = self.swa.layers if self.swa is not None else (False,) * self.h.layers
        elements = [(il, self.h.key_window if windowed[il] else width, self.v_head(il) if values else 0) for il in layers]
        return self.sized(name, self.options.n_ctx_seq, elements)

    def compressed(self, rows: tuple[Compressed, ...], attending: list[int]) -> list[Cache]:
        """The caches of a model that compresses its past: always a stream a sequence, K only."""
        streams = self.options.n_seq_max
        raw = [(il, self.k_elements(il), 0) for il in attending]
        caches = [
            self.sized("base", self.options.n_ctx_seq, [], streams=streams),
            self.sized("swa", self.window_cells(many=1), raw, streams=streams, windowed=True),
        ]
        for row in rows:
            cells = padded(max(1, -(-self.options.n_ctx_seq // row.ratio)))
            elements = [(il, self._gathered(row, il), 0) for il in compressed_layers(self.h, row)]
            caches.append(self.sized(row.name, cells, elements, streams=streams, ratio=row.ratio))
        return caches

    def _gathered(self, row: Compressed, il: int) -> int:
        return self.h.needed("attention.indexer.key_length") if row.key == "indexer" else self.k_elements(il)

    def sized(
        self,
        name: str,
        cells: int,
        elements: list[tuple[int, int, int]],
        *,
        streams: int | None = None,
        windowed: bool = False,
        ratio: int = 1,
    ) -> Cache:
        """A cache with its bytes."""
        o = self.options
        if streams is None:
            streams = 1 if o.kv_unified else o.n_seq_max
        try:
            k = sum(o.k.row_bytes(k) for _, k, _ in elements)
            v = sum(o.v.row_bytes(v) for _, _, v in elements)
        except ValueError as error:
            raise OptionsError(f"llama.cpp refuses this: {error}") from None
        swa = self.swa if windowed else None
        return Cache(
            name=name,
            cells=cells,
            streams=streams,
            layers=tuple(elements),
            k_bytes=k * cells * streams,
            v_bytes=v * cells * streams,
            window=swa.width if swa is not None else None,
            chunked=swa is not None and swa.chunked,
            ratio=ratio,
        )


def compressed_layers(h: Hparams, row: Compressed) -> list[int]:
    """The layers that compress by a row's ratio. Raises `KvError` where the model does not say it for each layer."""
    ratios = h.array("attention.compress_ratios")
    if ratios is None or len(ratios) < h.layers:
        raise lacks(h.arch, "attention.compress_ratios (one a layer)")
    return [il for il in range(h.layers) if ratios[il] == row.ratio]
