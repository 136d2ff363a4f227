// FRONT NAME: one call of a JavaScript SDK with a reference where a key would be. They use Node's fetch, which before
// 22.21 knows no proxy: undici's, with an EnvHttpProxyAgent, is handed to them.
import {EnvHttpProxyAgent, fetch as undici} from 'undici'

const [front, name] = process.argv.slice(2)
const proxied = front === 'proxy'
const reference = '@secret:key'
const messages = [{role: 'user', content: 'Hello'}]
const dispatcher = new EnvHttpProxyAgent()
const fetch = (url, options) => undici(url, {...options, dispatcher})
const options = {apiKey: reference, maxRetries: 0, ...(proxied && {fetch})}

const calls = {
  async anthropic(stream) {
    const {default: Anthropic} = await import('@anthropic-ai/sdk')
    const client = new Anthropic({...options, ...(proxied && {baseURL: 'https://llm.example'})})
    const asked = {model: 'm-1', max_tokens: 9, messages}
    if (!stream) return (await client.messages.create(asked)).content[0].text
    let text = ''
    for await (const event of client.messages.stream(asked)) text += event.delta?.text ?? ''
    return text
  },
  async openai(stream) {
    const {default: OpenAI} = await import('openai')
    const client = new OpenAI({...options, baseURL: `${proxied ? 'https://llm.example' : process.env.LLM_URL}/v1`})
    const asked = {model: 'm-1', messages}
    if (!stream) return (await client.chat.completions.create(asked)).choices[0].message.content
    let text = ''
    for await (const event of await client.chat.completions.create({...asked, stream: true})) {
      text += event.choices[0].delta.content ?? ''
    }
    return text
  },
  async octokit() {
    const {Octokit} = await import('@octokit/rest')
    const base = proxied ? 'https://github.example' : process.env.GITHUB_BASE_URL
    const client = new Octokit({auth: reference, baseUrl: `${base}/api/v3`, ...(proxied && {request: {fetch}})})
    const found = await client.rest.issues.listForRepo({owner: 'acme', repo: 'widgets', state: 'open'})
    return found.data[0].title
  },
}
const said = await calls[name](false)
console.log(name === 'octokit' ? said : `${said}|${await calls[name](true)}`)
