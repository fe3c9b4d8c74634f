// Live updates of console pages. Every page also works without it.
// Server data is only ever inserted as text; lists keep their length.
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
  // Times of today are shown without the date.
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
  const ticks = new Intl.DateTimeFormat(undefined, {
    hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3,
  });
  const formatTime = (at, exactly) => {
    const today = at.toDateString() === new Date().toDateString();
    if (exactly) return (today ? ticks : precise).format(at);
    return (today ? clock : short).format(at);
  };
  const count = new Intl.NumberFormat('en');

  const formatAge = (then, now) => {
    const seconds = Math.max(0, Math.floor((now - then) / 1000));
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} d`;
  };

  const setText = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };

  // Times in the viewer's time zone, and ages. The exact time is in the title.
  const localiseTimes = (root) => {
    for (const time of root.querySelectorAll('time[datetime]')) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      time.title = exact.format(at);
      if ('at' in time.dataset) setText(time, formatTime(at, time.dataset.at === 'ms'));
    }
  };
  const updateAges = () => {
    const now = Date.now();
    for (const time of document.querySelectorAll('time[data-age]')) setText(time, formatAge(Date.parse(time.dateTime), now));
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
    setText(time, formatAge(Date.parse(at), Date.now()));
  };

  // Creates a row with the columns of its table.
  const FIELDS = {
    tasks: ['state', 'id', 'agent', 'owner', 'created', 'updated'],
    streams: ['state', 'id', 'owner', 'created', 'updated'],
  };
  const makeRow = (table, kind) => {
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
    // The update may be older than the page.
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
          setText(badge, item.state);
          break;
        }
        case 'id':
          field.href = `/console/${kind}/${encodeURIComponent(item.id)}`;
          setText(field, item.id);
          break;
        case 'created':
        case 'updated':
          age(field, item[field.dataset.f]);
          break;
        case 'owner':
          field.title = item.owner_id;
          setText(field, item.owner);
          break;
        default:
          setText(field, item[field.dataset.f]);
      }
    }
  };

  // A list that is not full grows at the top. In a full list no row moves: a new row replaces the one
  // that ended first or, if the new one is live and all others are too, the one unchanged for longest.
  let ended = 0;
  const oldest = (rows, when) => rows.reduce((a, b) => (when(a) <= when(b) ? a : b));
  const place = (table, body, kind, live) => {
    body.querySelector('.none')?.remove();
    if (body.rows.length < ROWS[kind]) {
      const row = makeRow(table, kind);
      body.prepend(row);
      return row;
    }
    const free = [...body.rows].filter((row) => !row.matches(':hover, :focus-within'));
    const done = free.filter((row) => row.dataset.ended);
    if (done.length) return oldest(done, (row) => +row.dataset.ended);
    if (!live || !free.length) return null;
    return oldest(free, updated);
  };
  const rowsById = (body) => {
    const rows = new Map();
    for (const row of body.rows) if (row.dataset.id) rows.set(row.dataset.id, row);
    return rows;
  };
  const update = (kind, items) => {
    const table = document.querySelector(`table[data-live="${kind}"]`);
    if (!table) return;
    const body = table.tBodies[0];
    const rows = rowsById(body);
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
      setText(place, count.format(value));
      const tone = { waiting: 'wait', dead: 'bad' }[name];
      if (tone) place.parentElement.classList.toggle(tone, value > 0);
    }
  };

  // Throttles calls; the last one is always executed.
  const throttle = (pause, act) => {
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

  const fetchText = async (address) => {
    const answer = await fetch(address, { redirect: 'error' });
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.text();
  };

  // Replaces a part of the page and keeps opened details open. Updates that arrive during the request may be
  // newer than its response, and are applied again afterwards.
  const MAX_HELD = 32;
  const pendingReloads = new Set();
  const renew = async (address, selector) => {
    if (!document.querySelector(selector)) return;
    const held = [];
    pendingReloads.add(held);
    const text = await fetchText(address).catch(() => null);
    pendingReloads.delete(held);
    const fresh = text && new DOMParser().parseFromString(text, 'text/html').querySelector(selector);
    const old = document.querySelector(selector);
    if (!fresh || !old) return;
    const opened = [...old.querySelectorAll('details')].map((one) => one.open);
    fresh.querySelectorAll('details').forEach((one, place) => { one.open = opened[place] ?? one.open; });
    localiseTimes(fresh);
    const focused = old.contains(document.activeElement);
    old.replaceWith(document.adoptNode(fresh));
    if (focused && fresh.tabIndex === -1) fresh.focus({ preventScroll: true });
    if (fresh.matches('#list, #main')) resetList();
    held.forEach(apply);
    if (held.length >= MAX_HELD) onMissed();
  };

  // Lists of tasks or streams: shown rows are updated in place, new rows wait until the user asks for them.
  const MAX_NEWER = 100;
  const newer = new Set();
  let unknown = false;
  let since = -Infinity;
  const resetList = () => {
    const rows = [...document.querySelectorAll('#list tbody tr[data-id]')];
    // On a full page, rows older than the last one belong to the next page.
    since = document.querySelector('#list [rel=next]') ? Math.min(...rows.map(updated)) : -Infinity;
    newer.clear();
    unknown = false;
  };
  const latest = () => renew(location.href, '#list');
  const latestSoon = throttle(1000, latest);
  const offerNewer = (list, of) => {
    const button = list.querySelector('#newer');
    const status = list.querySelector('[role=status]');
    const some = newer.size > 0 || unknown;
    if (some && !list.querySelector('tr[data-id]')) latestSoon(); // The list is empty, so nothing moves.
    button.hidden = !some;
    const number = `${newer.size}${newer.size >= MAX_NEWER ? '+' : ''}`;
    setText(button, unknown ? 'Show newer' : `Show ${number} newer`);
    setText(status, some ? `There are newer ${of}.` : '');
  };
  const updateList = (changes) => {
    const list = document.querySelector('#list');
    if (!list) return;
    const shown = JSON.parse(list.dataset.shown);
    const belongs = (item) => (!shown.states.length || shown.states.includes(item.state))
      && (!shown.agent || shown.agent === item.agent) && (!shown.owner || shown.owner === item.owner_id)
      && Date.parse(item.updated) >= since;
    const rows = rowsById(list.querySelector('tbody'));
    for (const item of changes[shown.of]) {
      const row = rows.get(item.id);
      if (row) fill(row, shown.of, item);
      else if (!shown.first) continue;
      else if (!belongs(item)) newer.delete(item.id);
      else if (newer.size < MAX_NEWER) newer.add(item.id);
    }
    if (shown.first) offerNewer(list, shown.of);
  };

  // After missed updates, reloads the shown rows without moving any.
  const refreshRows = throttle(2000, async () => {
    const list = document.querySelector('#list');
    if (!list) return;
    const name = JSON.parse(list.dataset.shown).of === 'streams' ? 'stream' : 'id';
    const ids = [...list.querySelectorAll('tbody tr[data-id]')].map((row) => [name, row.dataset.id]);
    const text = await fetchText(`/console/rows?${new URLSearchParams(ids)}`).catch(() => null);
    if (text) updateList(JSON.parse(text));
  });
  const reload = throttle(3000, () => renew(location.href, '#main'));
  const onMissed = () => {
    if (document.querySelector('#list')) {
      unknown = true;
      refreshRows();
    } else if (watched()) refreshWatched();
    else reload();
  };

  // Reloads the watched task or stream, but never while the user is about to press a button in it.
  const watched = () => document.querySelector('[data-watch]:not([data-watch=""])');
  const refreshWatched = throttle(1000, () => {
    const place = watched();
    if (!place) return;
    if (place.querySelector('.ask[open]') || place.contains(document.activeElement)) refreshWatched();
    else renew(location.href, '[data-watch]');
  });

  const apply = (changes) => {
    update('tasks', changes.tasks);
    update('streams', changes.streams);
    updateList(changes);
    if (changes.counts) counts(changes.counts);
    const id = watched()?.dataset.watch;
    if (id && [...changes.tasks, ...changes.streams].some((item) => item.id === id)) refreshWatched();
    if (changes.more) onMissed();
  };

  // `mark` is the number of the last update. After a disconnect the stream resumes from there.
  let source = null;
  let mark = null;
  const connect = () => {
    const wanted = document.querySelector('[data-live]') || watched();
    if (!wanted || source || document.hidden) return;
    mark ??= document.querySelector('#main').dataset.mark;
    source = new EventSource(`/console/events?${new URLSearchParams({ from: mark })}`);
    source.addEventListener('changes', (event) => {
      mark = event.lastEventId;
      const changes = JSON.parse(event.data);
      for (const held of pendingReloads) if (held.length < MAX_HELD) held.push(changes);
      apply(changes);
    });
    source.addEventListener('sample', () => renew('/console/plots', '#plots'));
    source.addEventListener('behind', (event) => {
      mark = event.lastEventId || mark;
      onMissed();
    });
    // The number of live windows per session is limited; the oldest is evicted.
    source.addEventListener('aside', disconnect);
    source.addEventListener('error', () => { if (source?.readyState === EventSource.CLOSED) onRefused(); });
  };
  // The stream was refused and the browser does not reconnect by itself. A signed-out user must see that
  // instead of stale data.
  const onRefused = throttle(5000, async () => {
    const answer = await fetch('/console/rows', { redirect: 'error' }).catch(() => null);
    if (answer?.status === 401) location.reload();
    else resume();
  });
  const disconnect = () => {
    source?.close();
    source = null;
  };
  // The window is visible again.
  const resume = () => {
    if (document.hidden || (source && source.readyState !== EventSource.CLOSED)) return;
    disconnect();
    updateAges();
    connect();
  };

  localiseTimes(document);
  resetList();
  document.addEventListener('click', (event) => { if (event.target.closest('#newer')) latest(); });
  setInterval(() => { if (!document.hidden) updateAges(); }, 1000);
  connect();
  document.addEventListener('visibilitychange', () => (document.hidden ? disconnect() : resume()));
  addEventListener('focus', resume);
  addEventListener('pageshow', resume);
  addEventListener('pagehide', disconnect);
})();
