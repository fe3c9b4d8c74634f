// Keeps a page of the console true while somebody looks at it. Without it every page still works.
// What comes from the server is only ever put in as text; lists stay as short as they are.
'use strict';

(() => {
  const ROWS = { tasks: 25, streams: 10 };
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });
  const short = new Intl.DateTimeFormat(undefined, {
    month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit',
  });
  const precise = new Intl.DateTimeFormat(undefined, {
    month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3,
  });
  // Of today, the day need not be said.
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
  const ticks = new Intl.DateTimeFormat(undefined, {
    hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3,
  });
  const told = (at, exactly) => {
    const today = at.toDateString() === new Date().toDateString();
    if (exactly) return (today ? ticks : precise).format(at);
    return (today ? clock : short).format(at);
  };
  const count = new Intl.NumberFormat('en');

  const ago = (then, now) => {
    const seconds = Math.max(0, Math.floor((now - then) / 1000));
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} d`;
  };

  const put = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };

  // Moments in the viewer's own time, ages that grow. The exact moment is in the title.
  const localise = (root) => {
    for (const time of root.querySelectorAll('time[datetime]')) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      time.title = exact.format(at);
      if ('at' in time.dataset) put(time, told(at, time.dataset.at === 'ms'));
    }
  };
  const grow = () => {
    const now = Date.now();
    for (const time of document.querySelectorAll('time[data-age]')) put(time, ago(Date.parse(time.dateTime), now));
  };

  const age = (cell, at) => {
    let time = cell.querySelector('time');
    if (!time) {
      time = document.createElement('time');
      time.className = 'age';
      time.dataset.age = '';
      cell.replaceChildren(time);
    }
    if (time.dateTime === at) return;
    time.dateTime = at;
    time.title = exact.format(new Date(at));
    put(time, ago(Date.parse(at), Date.now()));
  };

  // One row, made from the columns of its table.
  const FIELDS = {
    tasks: ['state', 'id', 'agent', 'owner', 'created', 'updated'],
    streams: ['state', 'id', 'owner', 'created', 'updated'],
  };
  const make = (table, kind) => {
    const heads = table.tHead.rows[0].cells;
    const row = document.createElement('tr');
    FIELDS[kind].forEach((field, place) => {
      const cell = document.createElement('td');
      cell.dataset.label = heads[place].textContent;
      if (field === 'id') {
        const link = document.createElement('a');
        link.className = 'id';
        link.dataset.f = field;
        cell.append(link);
      } else {
        cell.dataset.f = field;
        if (field === 'created' || field === 'updated') cell.className = 'n';
      }
      row.append(cell);
    });
    return row;
  };
  const updated = (row) => Date.parse(row.querySelector('[data-f="updated"] time')?.dateTime);
  const fill = (row, kind, item) => {
    // What is told may have been read before the page was.
    if (row.dataset.id === item.id && updated(row) > Date.parse(item.updated)) return;
    row.dataset.id = item.id;
    for (const field of row.querySelectorAll('[data-f]')) {
      switch (field.dataset.f) {
        case 'state': {
          let badge = field.firstElementChild;
          if (!badge) {
            badge = document.createElement('span');
            field.replaceChildren(badge);
          }
          badge.className = `badge ${item.tone}`;
          put(badge, item.state);
          break;
        }
        case 'id':
          field.href = `/console/${kind}/${encodeURIComponent(item.id)}`;
          put(field, item.id);
          break;
        case 'created':
        case 'updated':
          age(field, item[field.dataset.f]);
          break;
        case 'owner':
          field.title = item.owner_id;
          put(field, item.owner);
          break;
        default:
          put(field, item[field.dataset.f]);
      }
    }
  };

  // A list that has room grows at its top. In one that is full nothing moves under a finger: what is new
  // takes the place of what ended first, or, if it is live and all else is too, of what has not changed
  // for longest.
  let ended = 0;
  const oldest = (rows, when) => rows.reduce((a, b) => (when(a) <= when(b) ? a : b));
  const place = (table, body, kind, live) => {
    body.querySelector('.none')?.remove();
    if (body.rows.length < ROWS[kind]) {
      const row = make(table, kind);
      body.prepend(row);
      return row;
    }
    const free = [...body.rows].filter((row) => !row.matches(':hover, :focus-within'));
    const done = free.filter((row) => row.dataset.ended);
    if (done.length) return oldest(done, (row) => +row.dataset.ended);
    if (!live || !free.length) return null;
    return oldest(free, updated);
  };
  const known = (body) => {
    const rows = new Map();
    for (const row of body.rows) if (row.dataset.id) rows.set(row.dataset.id, row);
    return rows;
  };
  const update = (kind, items) => {
    const table = document.querySelector(`table[data-live="${kind}"]`);
    if (!table) return;
    const body = table.tBodies[0];
    const rows = known(body);
    for (const item of items) {
      let row = rows.get(item.id);
      if (!row) {
        row = place(table, body, kind, item.live);
        if (!row) continue;
        rows.delete(row.dataset.id);
        rows.set(item.id, row);
        delete row.dataset.ended;
      }
      fill(row, kind, item);
      row.classList.toggle('done', !item.live);
      if (item.live) delete row.dataset.ended;
      else row.dataset.ended ??= String(ended += 1);
    }
  };

  const counts = (all) => {
    for (const [name, value] of Object.entries(all)) {
      const place = document.querySelector(`[data-count="${name}"]`);
      if (!place) continue;
      put(place, count.format(value));
      const tone = { waiting: 'wait', dead: 'bad' }[name];
      if (tone) place.parentElement.classList.toggle(tone, value > 0);
    }
  };

  // At most once in a while, and always once more after it was asked for.
  const seldom = (pause, act) => {
    let timer = null;
    let due = 0;
    return () => {
      timer ??= setTimeout(() => {
        timer = null;
        due = Date.now() + pause;
        act();
      }, Math.max(0, due - Date.now()));
    };
  };

  const fetched = async (address) => {
    const answer = await fetch(address, { redirect: 'error' });
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.text();
  };

  // A part of the page in the place of the old one, with what was open left open. What is told while it is
  // on its way may be newer than it is, and is told again when it is there.
  const HELD = 32;
  const waiting = new Set();
  const renew = async (address, selector) => {
    if (!document.querySelector(selector)) return;
    const held = [];
    waiting.add(held);
    const text = await fetched(address).catch(() => null);
    waiting.delete(held);
    const fresh = text && new DOMParser().parseFromString(text, 'text/html').querySelector(selector);
    const old = document.querySelector(selector);
    if (!fresh || !old) return;
    const opened = [...old.querySelectorAll('details')].map((one) => one.open);
    fresh.querySelectorAll('details').forEach((one, place) => { one.open = opened[place] ?? one.open; });
    localise(fresh);
    const focused = old.contains(document.activeElement);
    old.replaceWith(document.adoptNode(fresh));
    if (focused && fresh.tabIndex === -1) fresh.focus({ preventScroll: true });
    if (fresh.matches('#list, #main')) begin();
    held.forEach(apply);
    if (held.length >= HELD) missed();
  };

  // A list of tasks or streams: what is shown changes where it stands, and what is new waits until somebody asks for it.
  const NEWER = 100;
  const newer = new Set();
  let unknown = false;
  let since = -Infinity;
  const begin = () => {
    const rows = [...document.querySelectorAll('#list tbody tr[data-id]')];
    // On a page that is full, what changed before all that is shown has its place on another.
    since = document.querySelector('#list [rel=next]') ? Math.min(...rows.map(updated)) : -Infinity;
    newer.clear();
    unknown = false;
  };
  const latest = () => renew(location.href, '#list');
  const latestSoon = seldom(1000, latest);
  const offer = (list, of) => {
    const button = list.querySelector('#newer');
    const status = list.querySelector('[role=status]');
    const some = newer.size > 0 || unknown;
    if (some && !list.querySelector('tr[data-id]')) latestSoon(); // Nothing is there to be moved.
    button.hidden = !some;
    const number = `${newer.size}${newer.size >= NEWER ? '+' : ''}`;
    put(button, unknown ? 'Show what is newer' : `Show ${number} newer`);
    put(status, some ? `There are newer ${of}.` : '');
  };
  const listed = (said) => {
    const list = document.querySelector('#list');
    if (!list) return;
    const shown = JSON.parse(list.dataset.shown);
    const belongs = (item) => (!shown.states.length || shown.states.includes(item.state))
      && (!shown.agent || shown.agent === item.agent) && (!shown.owner || shown.owner === item.owner_id)
      && Date.parse(item.updated) >= since;
    const rows = known(list.querySelector('tbody'));
    for (const item of said[shown.of]) {
      const row = rows.get(item.id);
      if (row) fill(row, shown.of, item);
      else if (!shown.first) continue;
      else if (!belongs(item)) newer.delete(item.id);
      else if (newer.size < NEWER) newer.add(item.id);
    }
    if (shown.first) offer(list, shown.of);
  };

  // More has happened than was told. What is shown is looked at again, without anything being moved that
  // somebody may be about to press.
  const look = seldom(2000, async () => {
    const list = document.querySelector('#list');
    if (!list) return;
    const name = JSON.parse(list.dataset.shown).of === 'streams' ? 'stream' : 'id';
    const ids = [...list.querySelectorAll('tbody tr[data-id]')].map((row) => [name, row.dataset.id]);
    const text = await fetched(`/console/rows?${new URLSearchParams(ids)}`).catch(() => null);
    if (text) listed(JSON.parse(text));
  });
  const reload = seldom(3000, () => renew(location.href, '#main'));
  const missed = () => {
    if (document.querySelector('#list')) {
      unknown = true;
      look();
    } else if (watched()) again();
    else reload();
  };

  // Never while somebody is about to press something.
  const watched = () => document.querySelector('[data-watch]:not([data-watch=""])');
  const again = seldom(1000, () => {
    const place = watched();
    if (!place) return;
    if (place.querySelector('.ask[open]') || place.contains(document.activeElement)) again();
    else renew(location.href, '[data-watch]');
  });

  const apply = (said) => {
    update('tasks', said.tasks);
    update('streams', said.streams);
    listed(said);
    if (said.counts) counts(said.counts);
    const id = watched()?.dataset.watch;
    if (id && [...said.tasks, ...said.streams].some((item) => item.id === id)) again();
    if (said.more) missed();
  };

  // A page knows by which moment it was made, and is told what came after, wherever it stopped listening.
  let source = null;
  let mark = null;
  const listen = () => {
    const wanted = document.querySelector('[data-live]') || watched();
    if (!wanted || source || document.hidden) return;
    mark ??= document.querySelector('#main').dataset.mark;
    source = new EventSource(`/console/events?${new URLSearchParams({ from: mark })}`);
    source.addEventListener('changes', (event) => {
      mark = event.lastEventId;
      const said = JSON.parse(event.data);
      for (const held of waiting) if (held.length < HELD) held.push(said);
      apply(said);
    });
    source.addEventListener('sample', () => renew('/console/plots', '#plots'));
    source.addEventListener('behind', (event) => {
      mark = event.lastEventId || mark;
      missed();
    });
    // Only so many windows of one session are told; the one that was opened first gives way.
    source.addEventListener('aside', hush);
    source.addEventListener('error', () => { if (source?.readyState === EventSource.CLOSED) lost(); });
  };
  // It was refused, and the browser does not come back by itself. Whoever is signed out must see that, and not
  // what was true before.
  const lost = seldom(5000, async () => {
    const answer = await fetch('/console/rows', { redirect: 'error' }).catch(() => null);
    if (answer?.status === 401) location.reload();
    else resume();
  });
  const hush = () => {
    source?.close();
    source = null;
  };
  // Somebody is back at this window.
  const resume = () => {
    if (document.hidden || (source && source.readyState !== EventSource.CLOSED)) return;
    hush();
    grow();
    listen();
  };

  localise(document);
  begin();
  document.addEventListener('click', (event) => { if (event.target.closest('#newer')) latest(); });
  setInterval(() => { if (!document.hidden) grow(); }, 1000);
  listen();
  document.addEventListener('visibilitychange', () => (document.hidden ? hush() : resume()));
  addEventListener('focus', resume);
  addEventListener('pageshow', resume);
  addEventListener('pagehide', hush);
})();
