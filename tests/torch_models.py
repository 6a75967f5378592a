"""Small PyTorch models of the kinds that people train: a decoder, a convolutional net, an audio encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class RmsNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Attention(nn.Module):
    """Causal, with heads that share keys and rotary positions."""

    def __init__(self, width: int, heads: int, shared: int):
        super().__init__()
        self.heads, self.shared, self.depth = heads, shared, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, shared * self.depth, bias=False)
        self.v = nn.Linear(width, shared * self.depth, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = (one(x).view(batch, tokens, -1, self.depth).transpose(1, 2) for one in (self.q, self.k, self.v))
        q, k = self.turned(q), self.turned(k)
        times = self.heads // self.shared
        k, v = (one[:, :, None].expand(-1, -1, times, -1, -1).reshape(q.shape) for one in (k, v))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(out.transpose(1, 2).reshape(batch, tokens, width))

    def turned(self, x: Tensor) -> Tensor:
        half = self.depth // 2
        angles = torch.arange(x.shape[2])[:, None] * 1e4 ** (-torch.arange(half) / half)
        cos, sin = (torch.cat([one, one], -1) for one in (angles.cos(), angles.sin()))
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Block(nn.Module):
    def __init__(self, width: int = 64):
        super().__init__()
        self.norm1, self.norm2, self.attention = RmsNorm(width), RmsNorm(width), Attention(width, 4, 2)
        self.gate, self.up = nn.Linear(width, 96, bias=False), nn.Linear(width, 96, bias=False)
        self.down = nn.Linear(96, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, layers: int = 2):
        super().__init__()
        self.words = nn.Embedding(50, 64)
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.norm, self.head = RmsNorm(64), nn.Linear(64, 50, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.each, self.groups = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.GroupNorm(4, 16)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.norm(self.first(x))), 2)
        x = functional.silu(self.groups(self.each(self.second(x))))
        return self.head(functional.adaptive_avg_pool2d(functional.avg_pool2d(x, 2), 1).flatten(1))


class AudioEncoder(nn.Module):
    """As Whisper begins: two convolutions, then layers that see all of the sound."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(8, 32, 3, padding=1), nn.Conv1d(32, 32, 3, stride=2, padding=1)
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers, self.norm = nn.ModuleList([layer]), nn.LayerNorm(32)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.gelu(self.second(functional.gelu(self.first(x)))).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def models() -> dict[str, tuple[nn.Module, Tensor]]:
    """Each with an input, the same on any run."""
    torch.manual_seed(0)
    made = {
        "decoder": (Decoder(), torch.randint(0, 50, (2, 16))),
        "conv net": (ConvNet(), torch.randn(2, 3, 16, 16)),
        "audio encoder": (AudioEncoder(), torch.randn(2, 8, 20)),
    }
    return {name: (model.eval(), x) for name, (model, x) in made.items()}
