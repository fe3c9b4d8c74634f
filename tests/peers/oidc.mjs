// Certified OAuth2 server on a loopback port: JWT access tokens with three algorithms for one resource, opaque tokens
// with introspection for another, the authorization code flow with PKCE, and key rotation.
// Usage: node oidc.mjs NODE_MODULES
//
// Prints its URL on the first line. Then reads one command per line: `rotate` replaces the keys, and `console URL`
// registers a redirect URI of a console. Exits at the end of its input.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [modules] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(`${modules}/oidc-provider/lib/index.js`));

const SCOPES = [
  'acp:agent:identify', 'acp:tasks:read', 'acp:tasks:write', 'acp:tasks:cancel',
  'acp:streams:read', 'acp:streams:write', 'acp:notifications:receive',
  'interzone:operate', 'interzone:content', 'interzone:change',
];
const consoleRedirects = [];
const ALGORITHMS = { rs256: 'RS256', es256: 'ES256', eddsa: 'EdDSA' };

function generateKeys() {
  const pairs = [
    ['RS256', generateKeyPairSync('rsa', { modulusLength: 2048 })],
    ['ES256', generateKeyPairSync('ec', { namedCurve: 'P-256' })],
    ['EdDSA', generateKeyPairSync('ed25519')],
  ];
  return pairs.map(([alg, { privateKey }]) => ({
    ...privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: `${alg}-${randomUUID()}`,
  }));
}

const serviceClient = (client_id) => ({
  client_id,
  client_secret: `secret of ${client_id}`,
  grant_types: ['client_credentials'],
  redirect_uris: [],
  response_types: [],
});

function createHandler(issuer) {
  const instance = new Provider(issuer, {
    clients: [
      ...Object.keys(ALGORITHMS).map(serviceClient),
      serviceClient('zone'),
      { ...serviceClient('few'), scope: 'openid acp:agent:identify acp:tasks:read' },
      {
        client_id: 'desktop',
        token_endpoint_auth_method: 'none',
        application_type: 'native',
        grant_types: ['authorization_code', 'refresh_token'],
        redirect_uris: ['http://127.0.0.1/callback'],
        response_types: ['code'],
      },
      ...(consoleRedirects.length === 0 ? [] : [{
        client_id: 'console',
        client_secret: 'secret of console',
        grant_types: ['authorization_code', 'refresh_token'],
        redirect_uris: consoleRedirects,
        response_types: ['code'],
      }]),
    ],
    jwks: { keys: generateKeys() },
    cookies: { keys: [randomUUID()] },
    // No cross-origin requests are made.
    clientBasedCORS: () => false,
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    pkce: { required: () => true },
    routes: { jwks: '/jwks.json' },
    scopes: ['openid', 'offline_access', ...SCOPES],
    ttl: { AccessToken: 600, ClientCredentials: 600, Grant: 3600, Interaction: 600, Session: 600 },
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: true },
      introspection: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => 'https://acp.test',
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource, client) => ({
          scope: SCOPES.join(' '),
          audience: resource,
          ...(resource === 'https://opaque.test'
            ? { accessTokenFormat: 'opaque' }
            : { accessTokenFormat: 'jwt', jwt: { sign: { alg: ALGORITHMS[client.clientId] ?? 'ES256' } } }),
        }),
      },
    },
  });
  instance.on('server_error', (_, error) => console.error(error));
  return instance.callback();
}

let handle;
const server = createServer((request, response) => handle(request, response));
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  handle = createHandler(issuer);
  console.log(issuer);
  const commands = createInterface({ input: process.stdin });
  commands.on('line', (line) => {
    if (line === 'rotate') {
      handle = createHandler(issuer);
      console.log('rotated');
    } else if (line.startsWith('console ')) {
      consoleRedirects.push(line.slice('console '.length));
      handle = createHandler(issuer);
      console.log('registered');
    }
  });
  commands.on('close', () => process.exit(0));
});
