"""The `local` networks: small, with permissive licences, on any laptop without torch."""
