"""`python -m vcache_cli` is the `vcache` command."""

from __future__ import annotations

from vcache_cli.cli.app import main

if __name__ == "__main__":
    main()
