(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  const weights = [0.2126, 0.7152, 0.0722];
  const light = (colour) => weights.reduce((sum, weight, at) => sum + weight * linear(colour[at] / 255), 0);
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const back = rgb(getComputedStyle(at).backgroundColor);
      if (back[3] > 250) return back;
    }
    return [255, 255, 255, 255];
  };
  const ratio = (one) => {
    const [a, b] = [rgb(getComputedStyle(one).color), behind(one)].map(light).sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const hasText = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  return [...document.querySelectorAll("main *, header *")]
    .filter((one) => hasText(one) && one.checkVisibility() && !one.closest("svg, option, :disabled, .visually-hidden"))
    .map((one) => [ratio(one), one.outerHTML.slice(0, 80)])
    .filter(([found]) => found < 4.5);
})()
