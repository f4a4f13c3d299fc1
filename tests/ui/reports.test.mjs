// The reports in a real browser, on a running platform: at three widths, in the light and in the dark.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { opened, platform, wait } from './browser.mjs'

let reports, close, page

before(async () => {
  ({ page, close } = await opened())
  // of a page that is served by itself; else of the platform
  reports = process.env.SLICEWISE_REPORTS_URL
  if (!reports) { // signs in, where that is not asked of anybody
    const { airflow } = platform()
    await page.goto(`${airflow}/plugin/slicewise`, wait)
    await page.frameLocator('iframe').locator('#views').getByText('carrier').first().waitFor(wait)
    reports = `${airflow}/slicewise/reports/`
  }
})

after(async () => close?.())

for (const width of [400, 800, 1280]) {
  for (const colorScheme of ['light', 'dark']) {
    test(`the reports can be read at ${width} pixels, ${colorScheme}`, async () => {
      const errors = []
      const note = message => { if (message.type() === 'error') errors.push(message.text()) }
      page.on('console', note)
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme })
      await page.goto(`${reports}?days=1`, wait)
      assert.ok(await page.locator('svg[role=img]').count() >= 1, 'no picture')
      for (const table of await page.locator('details > summary').all()) await table.click()
      const seen = await page.evaluate(() => {
        const colour = text => text.match(/[\d.]+/g).slice(0, 3).map(Number)
        const light = text => colour(text).reduce((sum, part) => sum + part, 0) / 3
        const body = getComputedStyle(document.body)
        return {
          over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
          wide: [...document.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().right > innerWidth).length,
          small: [...document.querySelectorAll('svg text')].filter(text => text.textContent.trim())
            .map(text => text.getBoundingClientRect().height).filter(height => height < 9).length,
          ink: light(body.color),
          back: light(body.backgroundColor),
          // axes are drawn with the page's ink
          letters: [...document.querySelectorAll('svg .axis text')].map(text => light(getComputedStyle(text).fill)),
          titles: [...document.querySelectorAll('svg[role=img]')].map(svg => svg.getAttribute('aria-labelledby')
            .split(' ').map(id => document.getElementById(id)?.textContent ?? ''))
        }
      })
      page.off('console', note)
      assert.deepEqual(errors, [])
      assert.equal(seen.over, 0, 'the page is wider than the window')
      assert.equal(seen.wide, 0, 'a picture is wider than the window')
      assert.equal(seen.small, 0, 'letters that nobody can read')
      assert.ok(colorScheme === 'dark' ? seen.ink - seen.back > 120 : seen.back - seen.ink > 120, JSON.stringify(seen))
      assert.ok(seen.letters.length && seen.letters.every(one => Math.abs(one - seen.back) > 100), 'letters of the ground\'s colour')
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
