"""`python -m longwatch`."""

from longwatch.cli.main import main

main()
