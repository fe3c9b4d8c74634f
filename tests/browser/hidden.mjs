// An operator who may look and no more signs in at an issuer elsewhere, and sees what happened but nothing of
// what was said.

import assert from "node:assert/strict";
import { journey } from "./visit.mjs";

await journey(async ({ said, open, look, forgive }) => {
  // The issuer's own page is not ours to judge.
  const issuer = new URL(said.issuer);
  forgive(new RegExp(issuer.host));
  forgive(/googleapis/);
  const page = await open(`${said.url}/console/tasks/${said.task}`, { also: issuer.origin });
  await page.locator("a", { hasText: "Sign in" }).click();
  await page.locator("input[name=login]").fill("anna");
  await page.locator("input[name=password]").fill("anything");
  await page.locator("[type=submit]").first().click();
  // It asks once more whether that is meant.
  await page.locator("[type=submit]", { hasText: "Continue" }).click();
  await page.waitForURL(`${said.url}/console/tasks/${said.task}`);
  await page.locator("h1 .badge", { hasText: "Completed" }).waitFor();
  await page.locator(".who", { hasText: "content hidden" }).waitFor();
  const seen = await page.content();
  assert.ok(!seen.includes(said.secret), "content is hidden");
  assert.ok(await page.locator(".hidden").count() > 0);
  await look(page, "console-hidden");
});
