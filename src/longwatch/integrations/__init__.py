"""Records what third-party SDKs instrument. Each module imports its SDK."""
