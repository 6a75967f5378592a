"""PyTorch functions of one matrix, of kinds that models have."""

from __future__ import annotations

import torch
from torch.nn import functional

FUNCTIONS = {
    "sort": lambda x: x.sort(1, descending=True),
    "argsort": lambda x: x.argsort(0),
    "topk": lambda x: x.topk(3, 1, largest=False),
    "argmax": lambda x: (x.argmax(1), x.argmin()),
    "max": lambda x: x.max(1),
    "cumsum": lambda x: (x.cumsum(1), x.cumprod(0), x.logcumsumexp(1)),
    "gather": lambda x: x.gather(1, x.argsort(1)),
    "index": lambda x: (x[torch.tensor([1, 3, -1])], x[:, torch.tensor([1, 2])], x[torch.tensor([0, 1]), 2:5]),
    "index put": lambda x: x.index_put((torch.tensor([1, 1, 3]),), x[:3], accumulate=True),
    "scatter": lambda x: x.scatter(1, x.argsort(1)[:, :3], -x),
    "scatter add": lambda x: torch.zeros(6, 8).scatter_add(0, x.argsort(0) % 5, x),
    "scatter reduce": lambda x: x.scatter_reduce(1, x.argsort(1), x * 2, "amax"),
    "masked": lambda x: x.masked_fill(x > 0.5, 3.0),
    "slices": lambda x: torch.slice_scatter(x, x[:2], 0, 1, 6, 3).flip(0)[1:, ::2],
    "strides": lambda x: x.as_strided((3, 4), (2, 5), 1),
    "unfold": lambda x: x.unfold(1, 3, 2),
    "windows": lambda x: functional.unfold(x[None, None], (2, 3), padding=1),
    "pads": lambda x: (
        functional.pad(x[None], (1, 2), "reflect"),
        functional.pad(x[None], (2, 1), "replicate"),
        functional.pad(x, (1, -1, 2, 0), value=2.0),
    ),
    "roll": lambda x: (x.roll((1, -2), (0, 1)), x.repeat(2, 3), x.diagonal(1), x.tril(-1)),
    "stack": lambda x: (torch.stack([x, -x], 1), torch.cat([x, x[:2]]), *x.split([2, 6], 1)),
    "variance": lambda x: (x.var(1), x.std(), torch.var_mean(x, 0, correction=0)),
    "products": lambda x: (x.prod(), x.prod(1), x.any(), (x > 0).all(1)),
    "norms": lambda x: (x.norm(dim=1), x.norm(3, dim=0), torch.cdist(x, x[:3]), torch.pdist(x)),
    "log softmax": lambda x: functional.cross_entropy(x, x.argmax(1)),
    "integers": lambda x: (
        (x * 9).int() // 4,
        (x * 9).int() % 5,
        (x * 9).int() & 6,
        ~(x * 9).int(),
        (x * 9).long() << 2,
    ),
    "rounding": lambda x: (x.floor(), x.ceil(), x.trunc(), (x * 3).round(), x.frac(), torch.remainder(x, 0.7)),
    "special": lambda x: (
        x.erf(),
        (x / 4).erfinv(),
        (x.abs() + 0.1).lgamma(),
        x.sinh(),
        (x / 4).asin(),
        x.atan2(x.flip(0)),
    ),
    "activations": lambda x: (
        functional.elu(x),
        functional.hardswish(x),
        functional.mish(x),
        functional.celu(x),
        functional.leaky_relu(x),
        functional.softplus(x, 2),
        functional.glu(x),
        functional.selu(x),
    ),
    "pools": lambda x: (
        functional.max_pool2d(x[None, None], 3, 2, 1),
        functional.avg_pool2d(x[None, None], 2, ceil_mode=True),
        functional.adaptive_avg_pool2d(x[None], (4, 3)),
        functional.max_pool1d(x[None], 2),
    ),
    "resampling": lambda x: (
        functional.interpolate(x[None, None], scale_factor=2.0),
        functional.interpolate(x[None, None], (9, 13), mode="bilinear"),
        functional.interpolate(x[None], 5, mode="linear", align_corners=True),
    ),
    "grid": lambda x: functional.grid_sample(
        x[None, None], x[None, :, :2, None].expand(1, 6, 2, 2).tanh(), align_corners=False
    ),
    "transposed convolution": lambda x: functional.conv_transpose1d(x[None], torch.ones(6, 4, 3), stride=2, padding=1),
    "dilated convolution": lambda x: functional.conv2d(x[None, None], torch.ones(2, 1, 2, 3), dilation=2, padding=2),
    "convolution of volumes": lambda x: functional.conv3d(x.view(1, 1, 2, 3, 8), torch.ones(2, 1, 2, 2, 3), padding=1),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "recurrent": lambda x: torch.nn.functional.silu(x) @ torch.linalg.multi_dot([x.T, x, x.T]),
    "norm layers": lambda x: (
        functional.instance_norm(x[None]),
        functional.local_response_norm(x[None], 3),
        functional.rms_norm(x, (8,)),
        functional.normalize(x),
    ),
    "scaled by powers": lambda x: torch.ldexp(x, (x * 3).int()),
    "where": lambda x: (torch.where(x > 0, x, 2.0), torch.clamp(x, -0.5, 0.5), torch.nan_to_num(x / 0), x.sign()),
    "one hot": lambda x: functional.one_hot(x.argmax(1), 9),
    "bucketed": lambda x: torch.triu_indices(4, 5),
    "half": lambda x: (x.bfloat16() @ x.bfloat16().T).float(),
}
