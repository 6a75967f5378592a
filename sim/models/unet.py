"""Stable Diffusion: the U-Net that denoises a latent image, and the autoencoder that makes an image of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sim.models.attention import Attention, attend
from sim.models.config import Fields
from sim.models.decoder import name_of
from sim.models.draft import Draft
from sim.models.graph import Graph, Layer, Section
from sim.models.workload import Sharding, Workload, divided, only

GUIDED = 2
"""Passes for one image: with its text and without (classifier-free guidance)."""
TEXT = 77
"""Tokens of a prompt."""


@dataclass(frozen=True, slots=True)
class Image:
    """Feature maps [batch, channels, size, size]."""

    batch: int
    channels: int
    size: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.channels, self.size, self.size

    @property
    def pixels(self) -> int:
        return self.batch * self.size * self.size

    def of(self, channels: int) -> Image:
        return Image(self.batch, channels, self.size)

    def resized(self, size: int) -> Image:
        return Image(self.batch, self.channels, size)


class Convolutions:
    """Drafts what both networks are built of."""

    def __init__(self, draft: Draft, groups: int, time: int):
        self.draft = draft
        self.groups = groups
        self.time = time
        """Width of the time's embedding; 0 where there is none."""

    def conv(self, name: str, image: Image, channels: int, width: int = 3, stride: int = 1) -> Image:
        weights = self.draft.weight(channels, image.channels, width, width), self.draft.weight(channels)
        padding = (width - 1) // 2
        self.draft.call(name, "conv2d", self.draft.flow(*image.shape), *weights, stride=stride, padding=padding)
        return image.of(channels).resized(-(-image.size // stride))

    def norm(self, name: str, image: Image, **activation: str) -> None:
        weights = self.draft.weight(image.channels), self.draft.weight(image.channels)
        self.draft.call(name, "group_norm", self.draft.flow(*image.shape), *weights, groups=self.groups, **activation)

    def add(self, name: str, image: Image) -> None:
        self.draft.add(name, image.pixels, image.channels)

    def residual(self, name: str, image: Image, channels: int) -> Image:
        """Two convolutions, the time's embedding between them, and a way past."""
        self.norm(f"{name}/norm 1", image, activation="silu")
        made = self.conv(f"{name}/convolution 1", image, channels)
        if self.time:
            self.draft.elementwise(f"{name}/time silu", "silu", (image.batch, self.time))
            self.draft.matmul(f"{name}/time", image.batch, self.time, channels, bias=True)
            pixels = image.size * image.size
            self.draft.elementwise(f"{name}/add time", "add", (pixels, channels), (channels,), times=image.batch)
        self.norm(f"{name}/norm 2", made, activation="silu")
        self.conv(f"{name}/convolution 2", made, channels)
        if image.channels != channels:
            self.conv(f"{name}/shortcut", image, channels, 1)
        self.add(f"{name}/add", made)
        return made

    def down(self, name: str, image: Image) -> Image:
        return self.conv(name, image, image.channels, stride=2)

    def up(self, name: str, image: Image) -> Image:
        self.draft.call(f"{name}/nearest", "upsample", self.draft.flow(*image.shape), scale=2)
        return self.conv(f"{name}/convolution", image.resized(2 * image.size), image.channels)

    def attention(self, name: str, image: Image, heads: int) -> None:
        """Over all pixels, as the autoencoder has it."""
        self.norm(f"{name}/norm", image)
        attend(self.draft, _heads(image.channels, heads), image.batch, image.size**2, image.channels)
        self.add(f"{name}/residual", image)

    def transformer(self, name: str, image: Image, heads: int, text: int, layers: int) -> None:
        """Attention over pixels, then over the prompt, then a gated feed-forward part."""
        rows, width = image.pixels, image.channels
        self.norm(f"{name}/norm", image)
        self.draft.matmul(f"{name}/in", rows, width, width, bias=True)
        for _ in range(layers):
            self.draft.norm(f"{name}/norm 1", rows, width, "layernorm")
            attend(self.draft, _heads(width, heads), image.batch, image.size**2, width)
            self.draft.add(f"{name}/add 1", rows, width)
            self._over_text(name, image, heads, text)
            self.draft.norm(f"{name}/norm 3", rows, width, "layernorm")
            self._feed(name, rows, width)
            self.draft.add(f"{name}/add 3", rows, width)
        self.draft.matmul(f"{name}/out", rows, width, width, bias=True)
        self.draft.add(f"{name}/residual", rows, width)

    def _over_text(self, name: str, image: Image, heads: int, text: int) -> None:
        draft, rows, width = self.draft, image.pixels, image.channels
        draft.norm(f"{name}/norm 2", rows, width, "layernorm")
        draft.matmul(f"{name}/query", rows, width, width)
        draft.matmul(f"{name}/keys and values", image.batch * TEXT, text, 2 * width)
        queries = draft.flow(image.batch, heads, image.size**2, width // heads)
        words = draft.flow(image.batch, heads, TEXT, width // heads)
        draft.call(f"{name}/text scores", "attention", queries, words, words, causal=False)
        draft.matmul(f"{name}/text output", rows, width, width, bias=True)
        draft.add(f"{name}/add 2", rows, width)

    def _feed(self, name: str, rows: int, width: int) -> None:
        draft = self.draft
        draft.matmul(f"{name}/gate and up", rows, width, 8 * width, bias=True)
        draft.elementwise(f"{name}/gelu", "gelu_multiply", (rows, 4 * width), (rows, 4 * width))
        draft.matmul(f"{name}/down", rows, 4 * width, width, bias=True)


def _heads(width: int, heads: int) -> Attention:
    return Attention(heads, heads, width // heads, False, rope=False, output_bias=True)


@dataclass(frozen=True, slots=True)
class UNet:
    """Down, through the middle, and up again past what was seen on the way down."""

    name: str
    channels: tuple[int, ...]
    attends: tuple[bool, ...]
    """At each level on the way down."""
    each: int
    """Residual blocks of a level."""
    heads: tuple[int, ...]
    transformers: tuple[int, ...]
    """Layers of the transformer at each level."""
    text: int
    inputs: int
    outputs: int
    size: int
    groups: int
    phases: tuple[str, ...] = ("denoise",)

    def graph(self, workload: Workload, sharding: Sharding) -> Graph:
        """Steps of a denoiser, each over every image twice."""
        only(sharding, self.name, "dp")
        batch = GUIDED * divided("the batch", workload.batch, "dp", sharding.dp)
        draft = Draft(workload, sharding)
        layers = tuple(self._layers(draft, batch))
        return Graph(self.name, workload.phase, (Section("step", layers, workload.steps),))

    def cache_bytes(self, workload: Workload, sharding: Sharding) -> int:
        """Nothing stays from step to step."""
        return 0

    def _layers(self, draft: Draft, batch: int) -> Iterator[Layer]:
        time = 4 * self.channels[0]
        made = Convolutions(draft, self.groups, time)
        draft.matmul("time/1", batch, self.channels[0], time, bias=True, activation="silu")
        draft.matmul("time/2", batch, time, time, bias=True)
        image = made.conv("convolution", Image(batch, self.inputs, self.size), self.channels[0])
        yield draft.layer("begin")
        seen = [image]
        for level, channels in enumerate(self.channels):
            for number in range(self.each):
                image = self._cell(made, f"{number}", image, channels, level, self.attends[level])
                seen.append(image)
            if level < len(self.channels) - 1:
                image = made.down("downsample", image)
                seen.append(image)
            yield draft.layer(f"down {level}")
        image = made.residual("residual 0", image, self.channels[-1])
        made.transformer("transformer", image, self.heads[-1], self.text, self.transformers[-1])
        made.residual("residual 1", image, self.channels[-1])
        yield draft.layer("middle")
        yield from self._up(made, image, seen)

    def _up(self, made: Convolutions, image: Image, seen: list[Image]) -> Iterator[Layer]:
        for level in reversed(range(len(self.channels))):
            for number in range(self.each + 1):
                joined = image.of(image.channels + seen.pop().channels)
                image = self._cell(made, f"{number}", joined, self.channels[level], level, self.attends[level])
            if level:
                image = made.up("upsample", image)
                image = image.of(self.channels[level])
            yield made.draft.layer(f"up {level}")
        made.norm("norm", image, activation="silu")
        made.conv("convolution", image, self.outputs)
        yield made.draft.layer("end")

    def _cell(self, made: Convolutions, name: str, image: Image, channels: int, level: int, attends: bool) -> Image:
        image = made.residual(f"residual {name}", image, channels)
        if attends:
            made.transformer(f"transformer {name}", image, self.heads[level], self.text, self.transformers[level])
        return image


@dataclass(frozen=True, slots=True)
class Autoencoder:
    """An image to a latent one (encode), and back (decode)."""

    name: str
    channels: tuple[int, ...]
    each: int
    latent: int
    inputs: int
    size: int
    groups: int
    phases: tuple[str, ...] = ("encode", "decode")

    def graph(self, workload: Workload, sharding: Sharding) -> Graph:
        """The encoder or the decoder."""
        only(sharding, self.name, "dp")
        batch = divided("the batch", workload.batch, "dp", sharding.dp)
        draft = Draft(Workload("encode", dtype=workload.dtype), sharding)
        made = Convolutions(draft, self.groups, 0)
        layers = self._encoder(made, batch) if workload.phase == "encode" else self._decoder(made, batch)
        return Graph(self.name, workload.phase, (Section("model", tuple(layers)),))

    def cache_bytes(self, workload: Workload, sharding: Sharding) -> int:
        """Nothing is kept."""
        return 0

    def _encoder(self, made: Convolutions, batch: int) -> Iterator[Layer]:
        image = made.conv("convolution", Image(batch, self.inputs, self.size), self.channels[0])
        yield made.draft.layer("begin")
        for level, channels in enumerate(self.channels):
            for number in range(self.each):
                image = made.residual(f"residual {number}", image, channels)
            if level < len(self.channels) - 1:
                image = made.down("downsample", image)
            yield made.draft.layer(f"down {level}")
        yield self._middle(made, image)
        self._end(made, image, 2 * self.latent)
        made.conv("to latent", image.of(2 * self.latent), 2 * self.latent, 1)
        yield made.draft.layer("end")

    def _decoder(self, made: Convolutions, batch: int) -> Iterator[Layer]:
        small = self.size >> (len(self.channels) - 1)
        image = made.conv("from latent", Image(batch, self.latent, small), self.latent, 1)
        image = made.conv("convolution", image, self.channels[-1])
        yield made.draft.layer("begin")
        yield self._middle(made, image)
        for level, channels in reversed(list(enumerate(self.channels))):
            for number in range(self.each + 1):
                image = made.residual(f"residual {number}", image, channels)
            if level:
                image = made.up("upsample", image)
            yield made.draft.layer(f"up {level}")
        self._end(made, image, self.inputs)
        yield made.draft.layer("end")

    def _middle(self, made: Convolutions, image: Image) -> Layer:
        made.residual("residual 0", image, image.channels)
        made.attention("attention", image, 1)
        made.residual("residual 1", image, image.channels)
        return made.draft.layer("middle")

    def _end(self, made: Convolutions, image: Image, channels: int) -> None:
        made.norm("norm", image, activation="silu")
        made.conv("convolution", image, channels)


def read_unet(fields: Fields) -> UNet:
    """A U-Net as diffusers writes it."""
    channels = fields.integers("block_out_channels", length=16)
    kinds = fields.texts("down_block_types", length=16)
    if len(kinds) != len(channels):
        raise fields.fault("down_block_types", f"has {len(kinds)} entries for {len(channels)} levels")
    return UNet(
        name=name_of(fields),
        channels=channels,
        attends=tuple(kind.startswith("CrossAttn") for kind in kinds),
        each=fields.integer("layers_per_block", default=2, most=64),
        heads=_levels(fields, "attention_head_dim", channels, 8, divides=True),
        transformers=_levels(fields, "transformer_layers_per_block", channels, 1),
        text=fields.integer("cross_attention_dim"),
        inputs=fields.integer("in_channels", default=4),
        outputs=fields.integer("out_channels", default=4),
        size=_size(fields, channels),
        groups=_groups(fields, channels),
    )


def read_autoencoder(fields: Fields) -> Autoencoder:
    """The autoencoder of Stable Diffusion as diffusers writes it."""
    channels = fields.integers("block_out_channels", length=16)
    return Autoencoder(
        name=name_of(fields),
        channels=channels,
        each=fields.integer("layers_per_block", default=2, most=64),
        latent=fields.integer("latent_channels", default=4),
        inputs=fields.integer("in_channels", default=3),
        size=_size(fields, channels),
        groups=_groups(fields, channels),
    )


def _levels(
    fields: Fields, name: str, channels: tuple[int, ...], default: int, divides: bool = False
) -> tuple[int, ...]:
    """One number a level; one for all stands for each."""
    values = fields.integers(name, default=(default,), length=16)
    values = values * len(channels) if len(values) == 1 else values
    if len(values) != len(channels):
        raise fields.fault(name, f"has {len(values)} entries for {len(channels)} levels")
    for value, width in zip(values, channels, strict=True):
        if divides and width % value:
            raise fields.fault(name, f"{value} heads do not divide {width} channels")
    return values


def _size(fields: Fields, channels: tuple[int, ...]) -> int:
    size = fields.integer("sample_size", most=1 << 14)
    if size % (1 << (len(channels) - 1)):
        raise fields.fault("sample_size", f"{size} cannot be halved {len(channels) - 1} times")
    return size


def _groups(fields: Fields, channels: tuple[int, ...]) -> int:
    groups = fields.integer("norm_num_groups", default=32)
    for width in channels:
        if width % groups:
            raise fields.fault("norm_num_groups", f"{groups} does not divide {width} channels")
    return groups
