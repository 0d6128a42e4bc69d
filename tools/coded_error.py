"""The base of the errors that users see: one line for people, and a code for programs."""


class CodedError(Exception):
    """An error with several causes; `str()` is one line with the cause and the remedy.

    Attributes:
        code: The cause in snake_case, such as "unknown_provider". It stays when the wording changes. Empty if the class
            has one cause only.
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code
