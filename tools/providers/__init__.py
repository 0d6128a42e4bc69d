"""Web search engines of google_search: one file each, with one interface (`provider.SearchProvider`)."""
