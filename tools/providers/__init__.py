"""Web search engines behind google_search: one file each, one interface (`provider.SearchProvider`)."""
