"""Time of kt-kernel's mxfp4 experts: hidden 5120, inter 2304, 6 of 36 experts. Prints {tokens: best milliseconds}."""
import json
import sys
import time

import torch
from kt_kernel.utils.amx import NativeMoEWrapper

HIDDEN, INTER, EXPERTS, USED = 5120, 2304, 36, 6

# The wrapper asks for pinned memory, which needs a card.
_empty = torch.empty
torch.empty = lambda *size, pin_memory=False, **kw: _empty(*size, **kw)


class Loader:
    """Hands random codes and scales to the wrapper in place of a checkpoint."""

    def load_experts(self, _key):
        def codes(rows, cols):
            return [torch.randint(0, 256, (rows, cols // 2), dtype=torch.uint8) for _ in range(EXPERTS)]

        def scales(rows, cols):
            return [torch.full((rows, cols // 32), 2.0**-7, dtype=torch.bfloat16) for _ in range(EXPERTS)]

        return {
            "gate": codes(INTER, HIDDEN), "up": codes(INTER, HIDDEN), "down": codes(HIDDEN, INTER),
            "gate_scale": scales(INTER, HIDDEN), "up_scale": scales(INTER, HIDDEN),
            "down_scale": scales(HIDDEN, INTER),
        }

    def close_all_handles(self):
        pass


def main(threads):
    NativeMoEWrapper._native_loader_instance = Loader()
    moe = NativeMoEWrapper(
        layer_idx=0, num_experts=EXPERTS, num_experts_per_tok=USED, hidden_size=HIDDEN,
        moe_intermediate_size=INTER, gpu_experts_mask=torch.zeros(EXPERTS, dtype=torch.bool),
        cpuinfer_threads=threads, threadpool_count=1, weight_path="", chunked_prefill_size=64, method="MXFP4",
        swiglu_limit=10.0)
    moe.load_weights(torch.arange(EXPERTS))
    result = {"backend": type(moe.moe).__name__}
    for tokens in (1, 8, 64):
        x = torch.randn(tokens, HIDDEN).to(torch.bfloat16)
        weights = torch.ones(tokens, USED)
        y = torch.zeros(tokens, HIDDEN, dtype=torch.bfloat16)
        best = float("inf")
        for _ in range(20):
            ids = torch.stack([torch.randperm(EXPERTS)[:USED] for _ in range(tokens)]).to(torch.long)
            count = torch.tensor([tokens], dtype=torch.int32)
            begin = time.perf_counter()
            moe.cpu_infer.submit(moe.moe.forward_task(
                count.data_ptr(), USED, ids.data_ptr(), weights.data_ptr(), x.data_ptr(), y.data_ptr(), False))
            moe.cpu_infer.sync()
            best = min(best, time.perf_counter() - begin)
        result[tokens] = 1e3 * best
    print(json.dumps(result))


main(int(sys.argv[1]))
