// Keys and the study's clock. Gradio draws everything else.
(() => {
  const KEYS = { ArrowRight: "#next", n: "#next", ArrowLeft: "#previous", p: "#previous", r: "#reveal" };
  const button = (selector) => {
    const found = document.querySelector(selector);
    return found && (found.matches("button") ? found : found.querySelector("button"));
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.closest("input, textarea, select, [role=listbox], [role=region], [contenteditable=true]")) return;
    const selector = KEYS[event.key] || (/^[1-6]$/.test(event.key) && `#judge-${event.key}`);
    const pressed = selector && button(selector);
    if (pressed && pressed.offsetParent && !pressed.disabled) {
      event.preventDefault();
      pressed.click();
    }
  });

  // Presses of Previous and Next are counted here: those that come while the server answers are sent with the next call.
  let steps = 0;
  document.addEventListener(
    "click",
    (event) => {
      if (event.target.closest("#next")) steps += 1;
      if (event.target.closest("#previous")) steps -= 1;
    },
    true,
  );
  window.pvgTakeSteps = () => {
    const taken = steps;
    steps = 0;
    return taken;
  };

  // The server keeps the time; this shows it, from what was left when the solution arrived.
  let clock = null;
  setInterval(() => {
    const place = document.querySelector(".countdown");
    if (!place) return (clock = null);
    const { item, seconds } = place.dataset;
    if (!clock || clock.item !== item || clock.place !== place) {
      clock = { item, place, end: performance.now() + 1000 * seconds, told: false, over: false, whole: null };
    }
    const left = Math.max(0, (clock.end - performance.now()) / 1000);
    place.querySelector("strong").textContent = Math.ceil(left);
    place.classList.toggle("late", left <= 10);
    const study = place.closest(".study");
    const bar = study.querySelector(".bar div");
    clock.whole = clock.whole || left / (parseFloat(bar.style.width) / 100);
    bar.style.width = `${(100 * left) / clock.whole}%`;
    if (left <= 10 && !clock.told && seconds > 10) {
      clock.told = true;
      study.querySelector(".announcement").textContent = "Ten seconds left";
    }
    if (left === 0 && !clock.over) {
      clock.over = true;
      button("#time-ran-out").click();
    }
  }, 200);
})();
