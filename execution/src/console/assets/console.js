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
  const fill = (row, kind, item) => {
    row.dataset.id = item.id;
    row.classList.toggle('done', !item.live);
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
    return oldest(free, (row) => row.querySelector('[data-f="updated"] time').dateTime);
  };
  const update = (kind, items) => {
    const table = document.querySelector(`table[data-live="${kind}"]`);
    if (!table) return;
    const body = table.tBodies[0];
    const rows = new Map();
    for (const row of body.rows) if (row.dataset.id) rows.set(row.dataset.id, row);
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

  const fetched = async (address) => {
    const answer = await fetch(address, { headers: { accept: 'text/html' }, redirect: 'error' });
    if (!answer.ok) throw new Error(String(answer.status));
    return new DOMParser().parseFromString(await answer.text(), 'text/html');
  };

  // A part of the page in the place of the old one, with what was open left open.
  const renew = async (address, selector) => {
    const old = document.querySelector(selector);
    if (!old) return;
    const page = await fetched(address).catch(() => null);
    const fresh = page?.querySelector(selector);
    if (!fresh || !old.isConnected) return;
    const opened = [...old.querySelectorAll('details')].map((one) => one.open);
    fresh.querySelectorAll('details').forEach((one, place) => { one.open = opened[place] ?? one.open; });
    localise(fresh);
    old.replaceWith(document.adoptNode(fresh));
  };

  // At most once a second, and never while somebody is about to press something.
  let due = 0;
  let waiting = false;
  const watched = () => document.querySelector('[data-watch]:not([data-watch=""])');
  const again = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(async () => {
      waiting = false;
      due = Date.now() + 1000;
      const place = watched();
      if (!place) return;
      if (place.querySelector('.ask[open]') || place.contains(document.activeElement)) return again();
      await renew(location.href, '[data-watch]');
    }, Math.max(0, due - Date.now()));
  };

  let source = null;
  const listen = () => {
    const wanted = document.querySelector('[data-live]') || watched();
    if (!wanted || source || document.hidden) return;
    source = new EventSource('/console/events');
    source.addEventListener('changes', (event) => {
      const said = JSON.parse(event.data);
      update('tasks', said.tasks);
      update('streams', said.streams);
      if (said.counts) counts(said.counts);
      const id = watched()?.dataset.watch;
      if (id && [...said.tasks, ...said.streams].some((item) => item.id === id)) again();
    });
    source.addEventListener('sample', () => renew('/console/plots', '#plots'));
    source.addEventListener('behind', () => renew(location.href, '#main'));
    // Only so many windows of one session are told; the one that was opened first gives way.
    source.addEventListener('aside', hush);
  };
  const hush = () => {
    source?.close();
    source = null;
  };
  // Somebody is back at this window. Unless it was told all the while, something may have happened.
  const resume = () => {
    if (document.hidden || (source && source.readyState !== EventSource.CLOSED)) return;
    hush();
    grow();
    if (document.querySelector('[data-live]') || watched()) renew(location.href, '#main');
    listen();
  };

  // Where the rooms are in a row that is longer than the screen, the one that this is must be seen.
  const rooms = document.querySelector('.top nav');
  const here = rooms?.querySelector('[aria-current]');
  if (here) rooms.scrollLeft = here.offsetLeft - rooms.offsetLeft - (rooms.clientWidth - here.offsetWidth) / 2;

  localise(document);
  setInterval(() => { if (!document.hidden) grow(); }, 1000);
  listen();
  document.addEventListener('visibilitychange', () => (document.hidden ? hush() : resume()));
  addEventListener('focus', resume);
  addEventListener('pagehide', hush);
})();
