"""A transformer's attention trained with ckdisp's kernels in place of PyTorch's own."""

import torch

import ckdisp

torch.manual_seed(0)
batch, heads, length, size = 2, 4, 128, 32
embedding = heads * size


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project_in = torch.nn.Linear(embedding, 3 * embedding)
        self.project_out = torch.nn.Linear(embedding, embedding)
        self.bias = torch.nn.Parameter(torch.zeros(heads, length, length))  # of relative places

    def forward(self, x: torch.Tensor, function) -> torch.Tensor:
        qkv = self.project_in(x).view(batch, length, 3, heads, size)
        q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))  # read where they are
        o = function(q, k, v, attn_mask=self.bias)
        return self.project_out(o.transpose(1, 2).flatten(2))


def gradients(function) -> list[torch.Tensor]:
    loss = model(x, function).square().mean()
    return list(torch.autograd.grad(loss, model.parameters()))


model, x = Attention(), torch.randn(batch, length, embedding)
ours = ckdisp.torch.scaled_dot_product_attention
theirs = torch.nn.functional.scaled_dot_product_attention
for a, b in zip(gradients(ours), gradients(theirs), strict=True):
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
print(f"gradients of {sum(p.numel() for p in model.parameters())} parameters agree")

# What PyTorch's function has no argument for, in one graph. The default backend, which
# compiles what is around attention, takes longer.
compiled = torch.compile(
    lambda q, k, v: ckdisp.torch.attention(q, k, v, window=(16, 0), return_lse=True),
    fullgraph=True,
    backend="aot_eager",
)
q = torch.randn(batch, heads, length, size, requires_grad=True)
o, lse = compiled(q, q, q)
o.sum().backward()
print(f"a window of 17 keys: lse of {lse.mean():.2f} on average")
