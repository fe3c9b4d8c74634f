// A person in front of a browser, and what must hold on every page that they see: nothing is asked of
// anybody but the product, nothing is wrong by the browser's own account, and no serious finding of axe.
// A journey is a file beside this one; what it is about stays there.
//
// Usage of a journey: node JOURNEY.mjs WHAT-`interzone up`-SAID-AS-JSON

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";

function told(name) {
  const value = process.env[name];
  assert.ok(value, `${name} is not set: eval "$(scripts/browser.sh env)" first`);
  return value;
}

const BROWSER = told("INTERZONE_TEST_BROWSER");
const MODULES = told("INTERZONE_TEST_BROWSER_MODULES");
const PICTURES = told("INTERZONE_TEST_BROWSER_PICTURES");
const load = createRequire(join(MODULES, "x"));
const { chromium } = load("playwright-core");
const AXE = readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");

/** How long a page may take to show something before a journey says that it never comes. */
const PATIENCE = 20_000;
/** How long a journey may take: less than who started it would wait, so that the failure has words. */
const WHOLE = 80_000;

/**
 * Runs a journey. It is given `said`, what `interzone up` said of its addresses; `open`, which opens an
 * address in a window of its own, `also` that of somebody else; `look`, which has axe judge a page and keeps
 * a picture of it; and `forgive`, for what the browser has to complain of by the nature of the journey.
 */
export async function journey(walk) {
  const name = basename(process.argv[1], ".mjs");
  const said = JSON.parse(process.argv[2]);
  const own = [said.url, said.chat, said.console].filter(Boolean).map((address) => new URL(address).origin);
  mkdirSync(PICTURES, { recursive: true });
  const late = setTimeout(() => {
    console.error(`${name}: not within ${WHOLE} ms`);
    process.exit(1); // The browser ends with the pipe that it is driven by.
  }, WHOLE);
  const browser = await chromium.launch({
    executablePath: BROWSER,
    // Names are resolved here alone, so that nothing can leave, whoever in the browser would send it.
    args: ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1", "--disable-gpu"],
  });
  const wrong = [];
  const forgiven = [];
  const forgive = (what) => forgiven.push(what);
  const pages = [];

  const open = async (address, { width = 1280, height = 800, dark = false, language = "en-US", also } = {}) => {
    const context = await browser.newContext({
      viewport: { width, height },
      colorScheme: dark ? "dark" : "light",
      reducedMotion: "reduce",
      locale: language,
      // The authority of `up` is known to its own folder alone.
      ignoreHTTPSErrors: true,
    });
    context.setDefaultTimeout(PATIENCE);
    const page = await context.newPage();
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (!["data:", "blob:"].includes(url.protocol) && !own.includes(url.origin)) wrong.push(`asked ${url.href}`);
    });
    page.on("console", (line) => {
      if (["error", "warning"].includes(line.type())) wrong.push(`${line.type()}: ${line.text()} ${line.location().url}`);
    });
    page.on("pageerror", (error) => wrong.push(`thrown: ${error.stack}`));
    if (also) own.push(also);
    pages.push(page);
    await page.goto(address);
    return page;
  };

  const look = async (page, shown) => {
    await page.screenshot({ path: join(PICTURES, `${shown}.png`) });
    const devtools = await page.context().newCDPSession(page);
    // The page's own policy would not let it in as a script.
    await devtools.send("Runtime.evaluate", { expression: AXE });
    const found = await page.evaluate(async () => {
      const { violations } = await globalThis.axe.run({ resultTypes: ["violations"], preload: false });
      return violations.map(({ impact, id, help, nodes }) => ({
        impact, id, help, where: nodes.slice(0, 5).map((node) => `${node.target}: ${node.failureSummary}`),
      }));
    });
    const serious = found.filter(({ impact }) => impact === "serious" || impact === "critical");
    assert.deepEqual(serious, [], `axe has found something on ${shown}`);
    await devtools.detach();
  };

  try {
    await walk({ said, open, look, forgive });
    const left = wrong.filter((line) => !forgiven.some((what) => what.test(line)));
    assert.deepEqual(left, [], "what went wrong in the browser");
  } catch (error) {
    for (const [at, page] of pages.entries()) {
      if (!page.isClosed()) await page.screenshot({ path: join(PICTURES, `${name}-failed-${at}.png`) });
    }
    console.error(error, wrong);
    console.error(`pictures are in ${PICTURES}`);
    process.exitCode = 1;
  } finally {
    await browser.close();
    clearTimeout(late);
  }
}
