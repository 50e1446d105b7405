// Reads out what the pointer is over. The page is whole without it.
(() => {
  const box = document.createElement('div');
  box.id = 'says';
  box.hidden = true;
  box.setAttribute('aria-hidden', 'true');
  document.body.append(box);
  document.addEventListener('pointermove', (event) => {
    const over = event.target instanceof Element && event.target.closest('[data-says]');
    box.hidden = !over;
    if (!over) return;
    box.textContent = over.dataset.says;
    const { offsetWidth: width, offsetHeight: height } = box;
    box.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8)) + 'px';
    box.style.top = (event.clientY + height + 24 > innerHeight ? event.clientY - height - 10 : event.clientY + 18) + 'px';
  });
  document.addEventListener('pointerleave', () => { box.hidden = true; });
  addEventListener('beforeprint', () => document.querySelectorAll('details').forEach((one) => { one.open = true; }));
})();
