"""Splitting of a text into passages, and their ranking by BM25 or by the embeddings of a LangChain model.

BM25 is the default: it needs no key, no model and no network, and its order is deterministic.
"""

import asyncio
import re
from collections.abc import Sequence

from langchain_core.embeddings import Embeddings

from agentflow.tools.result import ErrorClass, ToolFailure

CHUNK = 1200
"""Characters of a passage."""


def split(text: str) -> list[str]:
    """Return chunks of at most `CHUNK` characters: whole paragraphs where they fit, else cut at sentences, else
    anywhere.
    """
    chunks: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        for piece in _pieces(paragraph.strip()):
            if chunks and len(chunks[-1]) + len(piece) + 2 <= CHUNK:
                chunks[-1] += "\n\n" + piece
            else:
                chunks.append(piece)
    return chunks


def _pieces(paragraph: str) -> list[str]:
    """Return the paragraph in pieces that fit into a chunk; none if it is empty."""
    pieces = []
    while len(paragraph) > CHUNK:
        end = max(paragraph.rfind(mark, CHUNK // 2, CHUNK) for mark in (". ", "\n", "! ", "? ")) + 1
        end = end or CHUNK
        pieces.append(paragraph[:end].strip())
        paragraph = paragraph[end:].strip()
    return [piece for piece in [*pieces, paragraph] if piece]


def rank(query: str, chunks: Sequence[str], k: int) -> list[str]:
    """Return the `k` chunks that fit the query best (BM25), in the page's order."""
    if len(chunks) <= k:
        return list(chunks)
    import bm25s  # type: ignore[import-untyped]  # takes 0.2 s, on first use

    words = bm25s.tokenize(list(chunks), stopwords="en", show_progress=False)
    if not any(words.ids):
        return list(chunks[:k])
    retriever = bm25s.BM25()
    retriever.index(words, show_progress=False)
    asked = bm25s.tokenize(query, stopwords="en", show_progress=False)
    numbers, _ = retriever.retrieve(asked, k=k, show_progress=False)
    return [chunks[number] for number in sorted(numbers[0])]


async def rank_by_embeddings(query: str, chunks: Sequence[str], k: int, embeddings: Embeddings) -> list[str]:
    """Return chunks as `rank` does, by the cosine of the model's vectors. Raises ToolFailure(MODEL_ERROR)."""
    if len(chunks) <= k:
        return list(chunks)
    import numpy as np

    try:
        vectors, asked = await asyncio.gather(embeddings.aembed_documents(list(chunks)), embeddings.aembed_query(query))
        matrix, vector = np.asarray(vectors, dtype=float), np.asarray(asked, dtype=float)
        lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(vector)
        scores = matrix @ vector / np.maximum(lengths, 1e-12)
    except Exception as error:  # external code may raise any exception
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ToolFailure(ErrorClass.MODEL_ERROR, f"the embeddings could not be computed ({reason})") from error
    best = np.argsort(-scores, kind="stable")[:k]
    return [chunks[number] for number in sorted(best)]
