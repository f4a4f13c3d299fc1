// The registry's pages of the API in a real browser: a search, and a name with its versions, at three widths and in the dark.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { opened, platform, readable, wait } from './browser.mjs'

let address, close, page

before(async () => {
  address = platform().serving;
  ({ page, close } = await opened())
})

after(async () => { await close?.() })

for (const width of [400, 800, 1280]) {
  test(`a search and a name can be read at ${width} px, in light and in dark`, async () => {
    for (const scheme of ['light', 'dark']) {
      await readable(page, `${address}/registry`, width, scheme, async () => {})
      await readable(page, `${address}/registry/carrier`, width, scheme, async () => {})
    }
  })
}

test('a search leads to a name, with its features, versions and freshness, and asks nobody else', async () => {
  const errors = []
  page.on('pageerror', error => errors.push(error.message))
  page.on('request', request => { if (!request.url().startsWith(address)) errors.push(`asks ${request.url()}`) })
  await page.goto(address, wait)
  await page.getByRole('link', { name: 'registry' }).click()
  await page.getByRole('searchbox').fill('operations CARRIER')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.getByRole('link', { name: 'carrier', exact: true }).click()
  const text = await page.locator('body').innerText()
  const shown = await (await fetch(`${address}/v1/registry/carrier`)).json()
  const [view] = shown.definitions.filter(one => one.kind === 'view')
  for (const feature of view.features) assert.ok(text.includes(feature.column), feature.column)
  assert.match(text, /state\s+ready; /)
  assert.match(text, /source\s+flights/)
  assert.ok(shown.versions.length > 0)
  assert.match(text, /stands/)
  await page.getByRole('link', { name: 'all definitions' }).click()
  await page.getByRole('link', { name: 'flights', exact: true }).waitFor(wait)
  assert.deepEqual(errors, [])
})
