"""A plain script without agents: one run, a few events, and an ending that is not an exception.

Run it with `python examples/plain_script.py`, then show it with `longwatch show latest`.
"""

import longwatch

ROWS: list[dict[str, str]] = [
    {"id": "1", "price": "9.50"},
    {"id": "2", "price": "?"},
    {"id": "3", "price": "4.00"},
]


@longwatch.tool
def parse(row: dict[str, str]) -> float:
    """The price as a number. Raises ValueError for other text."""
    return float(row["price"])


def main() -> None:
    """Import every valid row, and count the others."""
    with longwatch.run("nightly import", source="prices.csv") as run:
        total, bad = 0.0, 0
        for row in ROWS:
            try:
                total += parse(row)
            except ValueError:
                bad += 1
        run.record("rows_counted", good=len(ROWS) - bad, bad=bad)
        run.set_result({"total": total})
        if bad > len(ROWS) // 2:
            run.fail(f"{bad} of {len(ROWS)} rows could not be read")
    print(f"{run.run_id}: total {total}, {bad} bad")


if __name__ == "__main__":
    main()
