"""The OpenAPI wire: `/api/v1` and the document that describes it (design.md 12)."""
