// Looks at the page at each animation frame, and keeps what differs from the frame before.
(() => {
  const samples = [];
  const said = [];
  const leaks = new Set();
  let before = "";

  /** The words of an element, without those of its controls, but for the quiet line that opens, and of what only frames a code block. */
  const words = (element) => {
    const skipped = (node) => node.parentElement.closest("figcaption, button:not(.opener)");
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    let text = "";
    while (walker.nextNode()) if (!skipped(walker.currentNode)) text += walker.currentNode.data;
    return text;
  };

  const look = () => {
    const turns = [...document.querySelectorAll(".turn[data-turn]")].slice(-3).map((turn) => ({
      turn: Number(turn.dataset.turn),
      state: turn.dataset.state,
      replies: [...turn.querySelectorAll(".reply")].map(words),
      growing: turn.querySelector(".reply")?.dataset.growing === "true",
      status: [...turn.querySelectorAll(".status")].map(words),
    }));
    const now = JSON.stringify(turns);
    if (now !== before) samples.push({ at: performance.now(), turns });
    before = now;
    const all = document.body.textContent;
    for (const word of window.penstockSecrets) if (all.includes(word)) leaks.add(word);
    requestAnimationFrame(look);
  };

  const listen = () => {
    look();
    const regions = document.querySelectorAll("[role=status], [role=alert]");
    for (const region of regions) {
      const hear = () => region.textContent && said.push([region.getAttribute("role"), region.textContent]);
      new MutationObserver(hear).observe(region, { childList: true, characterData: true, subtree: true });
    }
  };
  document.addEventListener("securitypolicyviolation", (event) => {
    console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
  });
  document.addEventListener("DOMContentLoaded", listen);
  Object.assign(window, { penstockSamples: samples, penstockSaid: said, penstockWords: words });
  Object.assign(window, { penstockSecrets: [], penstockLeaks: leaks });
})();
