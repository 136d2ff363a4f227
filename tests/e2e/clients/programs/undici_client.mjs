// METHOD URL [AUTHORIZATION]: with undici, whose EnvHttpProxyAgent reads the environment.
import {EnvHttpProxyAgent, fetch, setGlobalDispatcher} from 'undici'

setGlobalDispatcher(new EnvHttpProxyAgent())
const [method, url, authorization] = process.argv.slice(2)
const answer = await fetch(url, {
  method,
  headers: {...(authorization && {Authorization: authorization}), ...(method === 'POST' && {'Content-Type': 'application/json'})},
  body: method === 'POST' ? '{"title": "world"}' : undefined,
})
if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
console.log(await answer.text())
