"""A server: requests in an asyncio queue are batched for a compiled model in a thread pool."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

torch.manual_seed(0)
request = contextvars.ContextVar("request", default="none")
model = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 3)).eval()
compiled = torch.compile(model, dynamic=True)
local = threading.local()


@torch.compile
def postprocess(logits):
    local.count = getattr(local, "count", 0) + 1
    top = logits.softmax(-1).max(-1)
    return top.values, top.indices


def infer(rows):
    with torch.inference_mode():
        values, places = postprocess(compiled(torch.stack(rows)))
    return [(round(v, 3), i) for v, i in zip(values.tolist(), places.tolist(), strict=True)]


@torch.compile
async def traced(x):
    await asyncio.sleep(0)
    y = x * 2
    async with lock:
        return y.sum().item(), request.get()


async def worker(queue, pool):
    loop = asyncio.get_running_loop()
    while True:
        batch = [await queue.get()]
        while not queue.empty() and len(batch) < 3:
            batch.append(queue.get_nowait())
        answers = await loop.run_in_executor(pool, infer, [x for x, _ in batch])
        for (_, future), answer in zip(batch, answers, strict=True):
            future.set_result(answer)


async def client(queue, number):
    request.set(f"r{number}")
    generator = torch.Generator().manual_seed(number)
    future = asyncio.get_running_loop().create_future()
    await queue.put((torch.randn(6, generator=generator), future))
    return await future, await traced(torch.full((2,), float(number)))


async def main():
    global lock
    lock = asyncio.Lock()
    queue = asyncio.Queue()
    with ThreadPoolExecutor(2) as pool:
        tasks = [asyncio.create_task(worker(queue, pool)) for _ in range(2)]
        for answer in await asyncio.gather(*(client(queue, n) for n in range(7))):
            print(answer)
        try:
            await asyncio.wait_for(client(queue, 9), 20)
        finally:
            for t in tasks:
                t.cancel()
            print(await asyncio.gather(*tasks, return_exceptions=True))


asyncio.run(main())
results = {}


def run(n):
    x = torch.full((n + 1, 6), n / 10)
    with torch.no_grad():
        results[n] = round(compiled(x).sum().item(), 3)


threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(sorted(results.items()))
