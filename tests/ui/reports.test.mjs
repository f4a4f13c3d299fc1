// The reports in a real browser, on a running platform: at three widths, in the light and in the dark.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { after, before, test } from 'node:test'
import { chromium } from 'playwright-core'

const root = resolve(import.meta.dirname, '..', '..')
const program = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync)
const wait = { timeout: 60_000 }
let reports, profile, browser, page

// what it prints counts: its exit status also tells of what no page needs
function airflow () {
  let out
  try {
    out = execFileSync(join(root, '.venvs/platform/bin/slicewise'), ['status', '--json'], { encoding: 'utf8' })
  } catch (error) {
    if (!error.stdout) throw error
    out = error.stdout
  }
  const parsed = JSON.parse(out)
  return (Array.isArray(parsed) ? parsed : parsed.services).find(each => each.name === 'airflow').address
}

before(async () => {
  assert.ok(program, 'no browser: apt-get install chromium')
  // of a page that is served by itself; else of the platform
  reports = process.env.SLICEWISE_REPORTS_URL ?? `${airflow()}/slicewise/reports/`
  profile = mkdtempSync(join(tmpdir(), 'slicewise-ui-'))
  browser = await chromium.launchPersistentContext(profile, {
    executablePath: program,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync']
  })
  page = await browser.newPage()
  if (!process.env.SLICEWISE_REPORTS_URL) { // signs in, where that is not asked of anybody
    await page.goto(`${airflow()}/plugin/slicewise`, wait)
    await page.frameLocator('iframe').getByText('carrier').first().waitFor(wait)
  }
})

after(async () => {
  await browser?.close()
  if (profile) rmSync(profile, { recursive: true, force: true })
})

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
