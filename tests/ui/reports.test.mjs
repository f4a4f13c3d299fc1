// The reports in a real browser, on a running platform: at three widths, in the light and in the dark.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { opened, readable, signedIn, wait } from './browser.mjs'

let reports, close, page

before(async () => {
  ({ page, close } = await opened())
  // of a page that is served by itself; else of the platform
  reports = process.env.SLICEWISE_REPORTS_URL ?? `${await signedIn(page)}/slicewise/reports/`
})

after(async () => close?.())

for (const width of [400, 800, 1280]) {
  for (const colorScheme of ['light', 'dark']) {
    test(`the reports can be read at ${width} pixels, ${colorScheme}`, async () => {
      const back = await readable(page, `${reports}?days=1`, width, colorScheme, async () => {
        assert.ok(await page.locator('svg[role=img]').count() >= 1, 'no picture')
        for (const table of await page.locator('details > summary').all()) await table.click()
      })
      const seen = await page.evaluate(() => ({
        wide: [...document.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().right > innerWidth).length,
        small: [...document.querySelectorAll('svg text')].filter(text => text.textContent.trim())
          .map(text => text.getBoundingClientRect().height).filter(height => height < 9).length,
        // axes are drawn with the page's ink
        letters: [...document.querySelectorAll('svg .axis text')].map(text => window.light(getComputedStyle(text).fill)),
        titles: [...document.querySelectorAll('svg[role=img]')].map(svg => svg.getAttribute('aria-labelledby')
          .split(' ').map(id => document.getElementById(id)?.textContent ?? ''))
      }))
      assert.equal(seen.wide, 0, 'a picture is wider than the window')
      assert.equal(seen.small, 0, 'letters that nobody can read')
      assert.ok(seen.letters.length && seen.letters.every(one => Math.abs(one - back) > 100), 'letters of the ground\'s colour')
      for (const [title, text] of seen.titles) assert.ok(title && /\d/.test(text), `${title}: ${text}`)
    })
  }
}

test('the list of checks leads to the report of one', async () => {
  await page.goto(`${reports}checks/`, wait)
  await page.locator('tbody a').first().click()
  await page.waitForURL(/checks\/check-/, wait)
  assert.match(await page.locator('body').innerText(), /values compared/)
})
