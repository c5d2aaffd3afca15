"""implicit's ALS behind the same kind of endpoint as `infrec serve`: FastAPI, uvicorn, one process, fold-in.

Called by benchmarks/serve.py with a Parquet file of user and item; prints its port when it is ready.
"""

from __future__ import annotations

import os
import socket
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import implicit
import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Wish(BaseModel):
    history: list[int]
    k: int = 10


def main() -> None:
    table = pq.read_table(sys.argv[1], columns=["user", "item"])
    users, row = np.unique(table["user"].to_numpy(), return_inverse=True)
    items, column = np.unique(table["item"].to_numpy(), return_inverse=True)
    matrix = sp.csr_matrix(
        (np.ones(len(row), np.float32), (row, column)), shape=(len(users), len(items)), dtype=np.float32
    )
    model = implicit.als.AlternatingLeastSquares(factors=64, iterations=15, num_threads=1, random_state=0)
    model.fit(matrix, show_progress=False)
    position = {int(item): at for at, item in enumerate(items)}
    app = FastAPI()

    @app.post("/v1/recommend")
    def recommend(wish: Wish) -> dict[str, object]:
        known = sorted({position[item] for item in wish.history if item in position})
        history = sp.csr_matrix((np.ones(len(known), np.float32), known, [0, len(known)]), (1, len(items)))
        found, scores = model.recommend(0, history, N=wish.k, recalculate_user=True)
        pairs = zip(items[found].tolist(), scores.tolist(), strict=True)
        return {"items": [{"item": item, "score": score} for item, score in pairs]}

    config = uvicorn.Config(
        app, port=0, access_log=False, log_level="error", http="httptools", loop="asyncio"
    )
    server = uvicorn.Server(config)
    # The protocol is named, as in `infrec serve`: otherwise answers wait 40 ms for Nagle's algorithm.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.bind(("127.0.0.1", 0))
    print(bound.getsockname()[1], flush=True)
    server.run([bound])


main()
