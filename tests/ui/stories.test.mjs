// The page from red to green in a real browser, on a running platform: at three widths, in the light and in the dark.
// Its story is written as checks and compactions write theirs, and taken away again.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { opened, platform, root, wait } from './browser.mjs'

const HOSTILE = '<img src=x onerror="document.title=1">'
let airflow, close, page, earlier

// runs lines of Python by which the record is read and changed; what they print
function record (...lines) {
  const code = [
    'import sys, time',
    'from slicewise.lifecycle.healing.record import PART, Healing, Job',
    'from slicewise.settings import Settings',
    'from slicewise.stores.online.redis.status import amend_part, read_part',
    'url, now = Settings.load().redis_url, time.time_ns() // 1000',
    'job = lambda s: Job(now - s * 10**6, f"report{s}", "check_consistency", "manual__2026-11-28T08:00:00+00:00")',
    ...lines
  ].join('\n')
  return execFileSync(join(root, '.venvs/platform/bin/python'), ['-c', code, HOSTILE], { encoding: 'utf8' })
}

before(async () => {
  earlier = record('print(Healing.of(read_part(url, PART)).text())').trim()
  record(
    'hour = now // 3_600_000_000',
    'value = {"view": "carrier_delays", "feature": "departures_1h", "entity": sys.argv[1] * 3,',
    '         "online": "3", "offline": "2", "cause": "doubled"}',
    'whole = Healing().red(job(90), {"carrier_delays": hour - 3}, hour, [value], began_us=0)',
    'whole = whole.recomputed(job(60), {"carrier_delays": {hour - 3, hour - 2}}, {"carrier_delays"})',
    'whole = whole.green(job(30), {"carrier_delays"}, 4321, began_us=now - 40 * 10**6)',
    'amend_part(url, PART, lambda _: whole.text())'
  )
  airflow = platform().airflow;
  ({ page, close } = await opened())
  await page.goto(`${airflow}/plugin/slicewise`, wait) // signs in, where that is not asked of anybody
  await page.frameLocator('iframe').locator('#views').getByText('carrier').first().waitFor(wait)
})

after(async () => {
  await close?.()
  record(`amend_part(url, PART, lambda _: Healing.of([${JSON.stringify(earlier)}]).text())`)
})

for (const width of [400, 800, 1280]) {
  for (const colorScheme of ['light', 'dark']) {
    test(`a story can be read at ${width} pixels, ${colorScheme}`, async () => {
      const errors = []
      const note = message => { if (message.type() === 'error') errors.push(message.text()) }
      page.on('console', note)
      await page.setViewportSize({ width, height: 900 })
      await page.emulateMedia({ colorScheme })
      await page.goto(`${airflow}/slicewise/stories/`, wait)
      await page.getByText('values', { exact: true }).click(wait)
      const seen = await page.evaluate(() => {
        const light = text => text.match(/[\d.]+/g).slice(0, 3).map(Number).reduce((sum, part) => sum + part, 0) / 3
        const body = getComputedStyle(document.body)
        return {
          over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
          contrast: light(body.color) - light(body.backgroundColor),
          marks: [...document.querySelectorAll('.red, .green')].map(mark => {
            return Math.abs(light(getComputedStyle(mark).color) - light(body.backgroundColor))
          }),
          text: document.body.innerText
        }
      })
      page.off('console', note)
      assert.deepEqual(errors, [])
      assert.equal(seen.over, 0, 'the page is wider than the window')
      assert.ok(colorScheme === 'dark' ? seen.contrast > 120 : seen.contrast < -120, `${seen.contrast}`)
      assert.ok(seen.marks.length >= 3 && seen.marks.every(one => one > 60), `${seen.marks}`)
      for (const words of ['the gate is open', 'the check is red', 'recomputed from raw events', '4321 values', 'doubled']) {
        assert.ok(seen.text.includes(words), `${words}: ${seen.text}`)
      }
      assert.ok(seen.text.includes(HOSTILE), 'the entity is shown as it is')
      assert.notEqual(await page.title(), '1', 'the entity ran')
    })
  }
}

test('each step leads to its run in Airflow', async () => {
  const [target] = await page.getByRole('link', { name: 'check_consistency' }).evaluateAll(links => links.map(link => link.href))
  assert.equal(target, `${airflow}/dags/check_consistency/runs/manual__2026-11-28T08%3A00%3A00%2B00%3A00`)
})
