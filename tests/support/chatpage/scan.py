"""The scan for what keeps people from using the page: axe."""

from __future__ import annotations

from playwright.sync_api import Page

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def faults(page: Page) -> list[str]:
    """Scan a page that has the scanner; what it finds."""
    result = page.evaluate("rules => axe.run(document, { runOnly: rules, resultTypes: ['violations'] })", RULES)
    return [
        f"{it['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:300]}"
        for it in result["violations"]
        for node in it["nodes"]
    ]
