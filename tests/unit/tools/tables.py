"""Where the readers of tables were, for a test that still looks here."""

from tests.cases import sections as sections
from tests.cases import table as table
