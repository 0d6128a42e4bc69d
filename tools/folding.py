"""Text normalised for searching: without invisible characters, and with one spelling for look-alike characters.

It is only used for searching. A full-width letter, an accent, a Cyrillic "е", a soft hyphen or a no-break space changes
the text, but not the word that a person or a normalising tokenizer reads. A search in the folded text finds all
variants.
"""

import unicodedata

_INVISIBLE = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
    *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
"""Ranges of Unicode's Default_Ignorable_Code_Point, and annotation marks."""

_ALIKE = {
    ord(letter): plain
    for letters, plains in (
        ("аеорсухіѕјԁһԛԝӏ", "aeopcyxisjdhqwl"),
        ("АВЕЅІЈКМНОРСТУХ", "ABESIJKMHOPCTYX"),
        ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧονιαυ", "ABEZHIKMNOPTYXovvau"),
        ("ıɡ꞉ː∶ˑ−⁃˗", "ig::::---"),
        ("—―", (" - ", " - ")),
    )
    for letter, plain in zip(letters, plains, strict=True)
}
"""Cyrillic and Greek letters that look like Latin ones, look-alikes of colons and hyphens, and long dashes."""


class _Folds(dict[int, str | int]):
    """Table for `str.translate`. Characters beyond the planes with Latin look-alikes are left as they are."""

    def __missing__(self, code: int) -> str | int:
        if code > 0x1FFFF and code >> 12 != 0xE0:
            return code
        self[code] = found = _fold(code)
        return found


def _fold(code: int) -> str | int:
    if any(first <= code <= last for first, last in _INVISIBLE):
        return ""
    kinds = [(character, unicodedata.category(character)) for character in unicodedata.normalize("NFKD", chr(code))]
    return "".join(
        _ALIKE.get(ord(character), {"Pd": "-", "Zs": " ", "Mn": ""}.get(kind, character)) for character, kind in kinds
    )


_FOLDS = _Folds()


def folded(text: str) -> str:
    """Return `text` as it is searched. Case and line breaks stay."""
    return text if text.isascii() else text.translate(_FOLDS)


def origins(text: str) -> list[int]:
    """Return the index in `text` of the origin of each character of `folded(text)`."""
    return [index for index, character in enumerate(text) for _ in folded(character)]
