"""Splitting of a text into passages, and their ranking by BM25, which needs no model and is deterministic."""

import re
from collections.abc import Sequence

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
