// The report page in a real browser. Run: `make page-test`; by hand: `npm install` and `node --test`
// in this folder. The sample pages are written by a program that cargo builds, or that PAGES_PROGRAM names, or are taken
// from the folder that PAGES names. CHROMIUM names another browser than /usr/bin/chromium.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const own = process.env.PAGES ? null : mkdtempSync(join(tmpdir(), 'linerate-pages-'));
const pages = process.env.PAGES ?? own;
if (own) {
  process.on('exit', () => rmSync(own, { recursive: true, force: true }));
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const built = () => {
    // Of the whole workspace, as for its tests: of one package alone most dependencies would be built once more.
    const words = ['build', '--release', '--quiet', '--workspace', '--example', 'pages'];
    execFileSync('cargo', words, { cwd: root, stdio: 'inherit' });
    return join(resolve(root, process.env.CARGO_TARGET_DIR ?? 'target'), 'release', 'examples', 'pages');
  };
  execFileSync(process.env.PAGES_PROGRAM ?? built(), [own], { cwd: root, stdio: 'inherit' });
}
const names = readdirSync(pages).filter((file) => file.endsWith('.html')).map((file) => file.slice(0, -5));
assert.ok(names.includes('run') && names.includes('climb') && names.includes('study'), `no sample pages in ${pages}`);

const NARROW = [360, 400];
const WIDE = 1100;

let browser;
before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update',
      '--disable-sync', '--no-first-run'],
  });
});
after(() => browser?.close());

const address = (name) => pathToFileURL(`${pages}/${name}.html`).href;
const document = (name) => JSON.parse(readFileSync(`${pages}/${name}.json`, 'utf8'));

/** Opens a page, hands it to `look`, and returns what it complained of and asked for. */
async function open(name, options, look = async () => {}) {
  const context = await browser.newContext({ viewport: { width: WIDE, height: 900 }, ...options });
  const page = await context.newPage();
  const seen = { complaints: [], requests: [], dialogs: [] };
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) seen.complaints.push(message.text());
  });
  page.on('pageerror', (error) => seen.complaints.push(String(error)));
  page.on('request', (request) => seen.requests.push(request.url()));
  page.on('dialog', (dialog) => { seen.dialogs.push(dialog.message()); dialog.dismiss(); });
  await page.goto(address(name), { waitUntil: 'load' });
  seen.result = await look(page);
  await context.close();
  return seen;
}

/** Figures and tables that can be seen, each with something in it. */
const present = (page) => page.evaluate(() => {
  const shown = (element) => element.getClientRects().length > 0;
  const svgs = [...document.querySelectorAll('figure.chart')].map((figure) => {
    const visible = [...figure.querySelectorAll('svg')].filter(shown);
    return { id: figure.id, visible: visible.length, shapes: visible.reduce((n, svg) => n + svg.querySelectorAll('path').length, 0),
      named: visible.every((svg) => svg.querySelector('title')?.textContent && svg.querySelector('desc')?.textContent) };
  });
  return { svgs, tables: [...document.querySelectorAll('table')].filter(shown).length };
});

/** Labels and ticks of every figure that can be seen: their boxes and their words. */
const labels = (page) => page.evaluate(() => [...document.querySelectorAll('figure.chart svg')]
  .filter((svg) => svg.getClientRects().length > 0)
  .map((svg) => {
    const box = (element) => { const { left, top, right, bottom } = element.getBoundingClientRect(); return { left, top, right, bottom }; };
    const label = (element) => ({ ...box(element), says: element.textContent });
    return { id: svg.closest('figure').id, window: innerWidth, labels: [...svg.querySelectorAll('g.label, text.tick, text.step, text.value')].map(label) };
  }));

function assertApart(figures) {
  for (const { id, labels: found, window } of figures) {
    for (const [index, a] of found.entries()) {
      assert.ok(a.left >= 0 && a.right <= window, `${id}: "${a.says}" runs off the page`);
      for (const b of found.slice(0, index)) {
        // Half a pixel of two boxes' own height is no overlap.
        const overlap = a.left < b.right && b.left < a.right && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5;
        assert.ok(!overlap, `${id}: "${a.says}" lies on "${b.says}"`);
      }
    }
  }
}

/** Texts whose contrast with what is behind them is under 4.5 (WCAG 2, AA). */
const faint = (page) => page.evaluate(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (colour) => {
    const [r, g, b] = rgba(colour).map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (rgba(colour)[3] === 255) return colour;
    }
    return 'white';
  };
  const texts = [...document.querySelectorAll('main *')].filter((element) => element.getClientRects().length > 0
    && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return texts.flatMap((element) => {
    const style = getComputedStyle(element);
    const [a, b] = [luminance(element instanceof SVGElement ? style.fill : style.color), luminance(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    return contrast < 4.5 ? [`${contrast.toFixed(2)}: ${element.textContent.trim().slice(0, 40)}`] : [];
  });
});

for (const name of names) {
  describe(name, () => {
    test('complains of nothing and asks for nothing but itself', async () => {
      const seen = await open(name);
      assert.deepEqual(seen.complaints, []);
      assert.deepEqual(seen.requests.filter((url) => !url.startsWith('data:')), [address(name)]);
      assert.deepEqual(seen.dialogs, []);
    });

    test('is the same without JavaScript', async () => {
      const withScript = (await open(name, {}, present)).result;
      // Evaluating needs no page script: the engine is off for the page alone.
      const without = (await open(name, { javaScriptEnabled: false }, present)).result;
      assert.deepEqual(without, withScript);
      for (const figure of without.svgs) {
        assert.equal(figure.visible, 1, `${figure.id}: one drawing is seen`);
        assert.ok(figure.shapes > 3 && figure.named, `${figure.id} is drawn and named`);
      }
      assert.ok(without.tables > 0);
    });

    for (const width of NARROW) {
      test(`does not scroll sideways at ${width} px`, async () => {
        const { result } = await open(name, { viewport: { width, height: 800 } }, (page) => page.evaluate(() => document.documentElement.scrollWidth));
        assert.ok(result <= width, `${result} px of content`);
      });
    }

    for (const width of [WIDE, ...NARROW]) {
      test(`has labels and ticks that do not lie on each other at ${width} px`, async () => {
        const { result } = await open(name, { viewport: { width, height: 800 } }, labels);
        assertApart(result);
      });
    }

    for (const colorScheme of ['light', 'dark']) {
      test(`can be read when it is ${colorScheme}`, async () => {
        const { result } = await open(name, { colorScheme }, faint);
        assert.deepEqual(result, []);
      });
    }

    test('prints whole and in its wide form', async () => {
      const { result } = await open(name, { viewport: { width: 400, height: 800 }, colorScheme: 'dark' }, async (page) => {
        await page.emulateMedia({ media: 'print' });
        return page.evaluate(() => ({
          narrow: [...document.querySelectorAll('svg.narrow')].some((svg) => svg.getClientRects().length > 0),
          paper: getComputedStyle(document.body).backgroundColor,
        }));
      });
      assert.deepEqual(result, { narrow: false, paper: 'rgb(255, 255, 255)' });
    });

    test('has headings for its columns and rows', async () => {
      const { result } = await open(name, {}, (page) => page.evaluate(() => [...document.querySelectorAll('table')]
        .filter((table) => !table.querySelector('caption') || !table.querySelector('th[scope=col]') || !table.querySelector('th[scope=row]'))
        .map((table) => table.textContent.slice(0, 60))));
      assert.deepEqual(result, []);
    });
  });
}

describe('the roofline', () => {
  const drawn = (page) => page.evaluate(() => {
    const svg = [...document.querySelectorAll('#roofline svg')].find((one) => one.getClientRects().length > 0);
    const line = (path) => ({ id: path.dataset.roof, binds: path.classList.contains('binds'),
      slants: path.getBBox().height > 1, long: path.getTotalLength() > 100 });
    return { lines: [...svg.querySelectorAll('path[data-roof]')].map(line), marks: svg.querySelectorAll('.mark').length,
      words: [...svg.querySelectorAll('g.label text')].map((text) => text.textContent).join(' ') };
  });

  for (const width of [WIDE, ...NARROW]) {
    test(`of a run has a labelled line for every ceiling at ${width} px`, async () => {
      const { result } = await open('run', { viewport: { width, height: 800 } }, drawn);
      const roofs = document('run').roofline.roofs.filter((roof) => roof.state === 'ceiling');
      assert.deepEqual(result.lines.map((line) => line.id).sort(), roofs.map((roof) => roof.id).sort());
      assert.ok(result.lines.every((line) => line.long));
      for (const roof of roofs) assert.ok(result.words.includes(roof.title), `${roof.title} in "${result.words}"`);
      assert.deepEqual(result.lines.filter((line) => line.binds).map((line) => line.id), [document('run').verdict.by]);
      const slants = Object.fromEntries(result.lines.map((line) => [line.id, line.slants]));
      assert.ok(slants['tcp.nagle-delayed-ack'] && slants['load.concurrency'] && !slants['target.cpu']);
    });
  }

  test('of a climb has a mark for every step and the roof that held it', async () => {
    const { result } = await open('climb', {}, drawn);
    const { steps } = document('climb');
    assert.equal(result.marks, steps.length);
    for (const step of steps) assert.ok(result.lines.some((line) => line.id === step.verdict.by));
  });

  test('of a study has a mark for every case, published ones too', async () => {
    const { result } = await open('study', {}, drawn);
    const { rows } = document('study');
    assert.equal(result.marks, rows.length + rows.filter((row) => row.published_per_s).length);
  });

  test('of a study of users has each server over time, and the limit that it met as a line', async () => {
    const { result } = await open('users', {}, (page) => page.evaluate(() => [...document.querySelectorAll('figure.chart')]
      .filter((figure) => figure.id.startsWith('climb-'))
      .map((figure) => figure.querySelectorAll('svg.wide path.roof.binds').length)));
    const { users } = document('users');
    const servers = users.climbs.filter((climb) => climb.purpose === 'server');
    assert.deepEqual(result, servers.map((climb) => (climb.held.limit ? 1 : 0)));
  });

  test('reads out what the pointer is over', async () => {
    const { result } = await open('run', {}, async (page) => {
      await page.locator('#roofline svg.wide .mark').hover();
      return page.locator('#says').textContent();
    });
    assert.equal(result, 'this run: 247/s at 10 connections');
  });
});

test('a hostile target name is text and nothing else', async () => {
  const seen = await open('hostile', {}, (page) => page.evaluate(() => ({
    scripts: document.scripts.length, images: document.images.length, heading: document.querySelector('h1').textContent })));
  assert.deepEqual(seen.dialogs, []);
  assert.equal(seen.result.scripts, 1);
  assert.equal(seen.result.images, 0);
  assert.match(seen.result.heading, /^<script>alert\('x'\)<\/script>/);
});
