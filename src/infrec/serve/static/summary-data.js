// What can be said about the users of a summary: how large, how popular their titles, how alike. Plain arrays, no drawing.

const NEIGHBOURS = 12;
const ROUNDS = 60;

/** The answer of /v1/summary, with columns in the order of popularity and everything derived from it. */
export class Summary {
  constructor(answer) {
    const { items } = answer;
    const users = answer.users.map(heaviest);
    const liked = new Int32Array(items.length);
    for (const user of users) for (const at of user.items) liked[at] += 1;
    this.fractional = answer.users.some((user) => user.weights);
    this.compared = answer.original_users != null && items.some((item) => item.original != null);
    this.originalUsers = answer.original_users;
    this.n = users.length;
    this.interactions = users.reduce((sum, user) => sum + user.items.length, 0);
    const fame = (at) => (this.compared ? (items[at].original ?? 0) : liked[at]);
    const order = items.map((_, at) => at);
    order.sort((a, b) => fame(b) - fame(a) || liked[b] - liked[a] || a - b);
    const column = new Int32Array(items.length);
    order.forEach((item, at) => (column[item] = at));
    /** Titles, best known first, each with the share of original and of summary users who like it. */
    this.items = order.map((at) => ({
      ...items[at],
      here: liked[at] / this.n,
      there: this.compared ? (items[at].original ?? 0) / this.originalUsers : null,
    }));
    this.users = users.map((user) => {
      const columns = Int32Array.from(user.items, (at) => column[at]).sort();
      const known = columns.reduce((sum, at) => sum + this.#share(at), 0);
      return { name: String(user.user), columns, size: columns.length, popularity: known / Math.max(1, columns.length) };
    });
    this.genres = this.#genreShares(this.users.map((user) => user.columns));
  }

  #share(column) {
    return this.items[column].there ?? this.items[column].here;
  }

  #genreShares(rows) {
    const shares = new Map();
    let total = 0;
    for (const columns of rows) {
      total += columns.length;
      for (const at of columns) {
        for (const genre of this.items[at].genres ?? []) shares.set(genre, (shares.get(genre) ?? 0) + 1);
      }
    }
    for (const [genre, n] of shares) shares.set(genre, n / Math.max(1, total));
    return shares;
  }

  /** How alike users are: the cosine of their rows, each less the average row. What everybody likes tells nothing. */
  get alike() {
    if (this._alike) return this._alike;
    const { n, items, users } = this;
    const owners = items.map(() => []);
    users.forEach((user, u) => user.columns.forEach((at) => owners[at].push(u)));
    const alike = new Float32Array(n * n);
    for (const list of owners) for (const a of list) for (const b of list) alike[a * n + b] += 1;
    const withAverage = users.map((user) => user.columns.reduce((sum, at) => sum + items[at].here, 0));
    const average = items.reduce((sum, item) => sum + item.here ** 2, 0);
    const centred = (a, b) => alike[a * n + b] - withAverage[a] - withAverage[b] + average;
    const length = users.map((_, u) => Math.sqrt(Math.max(centred(u, u), 1e-9)));
    for (let a = 0; a < n; a++) for (let b = 0; b < n; b++) alike[a * n + b] = centred(a, b) / (length[a] * length[b]);
    return (this._alike = alike);
  }

  /** An order in which neighbours are alike: around the circle of the two strongest directions of taste. */
  get seriation() {
    if (this._seriation) return this._seriation;
    const first = this.#direction([]);
    const second = this.#direction([first]);
    const angle = first.map((x, u) => Math.atan2(second[u], x));
    const order = ordered(this.n, (u) => angle[u]);
    // A circle becomes a line where it is emptiest.
    const gap = (at) => angle[order[at]] - (at ? angle[order[at - 1]] : angle[order.at(-1)] - 2 * Math.PI);
    const start = order.reduce((best, _, at) => (gap(at) > gap(best) ? at : best), 0);
    return (this._seriation = [...order.slice(start), ...order.slice(0, start)]);
  }

  /** Users along the strongest eigenvector of `alike` at right angles to those found, by power iteration. */
  #direction(found) {
    const { n, alike } = this;
    const clear = (v) => found.map(unit).reduce(without, v);
    let v = unit(clear(Float64Array.from({ length: n }, (_, u) => Math.sin(u + 1))));
    let strength = 0;
    for (let round = 0; round < ROUNDS; round++) {
      let next = new Float64Array(n);
      for (let a = 0; a < n; a++) for (let b = 0; b < n; b++) next[a] += alike[a * n + b] * v[b];
      next = clear(next);
      strength = norm(next);
      v = unit(next);
    }
    return v.map((x) => x * Math.sqrt(strength));
  }

  neighbours(u) {
    const { n, alike } = this;
    return ordered(n, (other) => -alike[u * n + other]).filter((other) => other !== u).slice(0, NEIGHBOURS);
  }

  /** How alike each user is to a set of columns. */
  closeness(columns) {
    const wanted = new Set(columns);
    return this.users.map((user) => {
      let common = 0;
      for (const at of user.columns) if (wanted.has(at)) common += 1;
      return common / Math.sqrt(Math.max(1, user.size));
    });
  }

  /** Rows in the order asked for. */
  sorted(by, picks) {
    const { n, users } = this;
    if (by === "size") return ordered(n, (u) => -users[u].size);
    if (by === "popularity") return ordered(n, (u) => -users[u].popularity);
    if (by === "picks") {
      const close = this.closeness(picks);
      return ordered(n, (u) => -close[u]);
    }
    return this.seriation;
  }

  /** Of a user's titles, those that it and its nearest have and the others have not. */
  apart(u) {
    const near = [u, ...this.neighbours(u)];
    const owned = new Map();
    for (const other of near) for (const at of this.users[other].columns) owned.set(at, (owned.get(at) ?? 0) + 1);
    const lead = (at) => owned.get(at) / near.length - this.items[at].here;
    return [...this.users[u].columns].sort((a, b) => lead(b) - lead(a) || a - b);
  }

  /** Genres that stand out in a user's titles, as multiples of their usual share. */
  leanings(u) {
    const own = this.#genreShares([this.users[u].columns]);
    return [...own]
      .map(([genre, share]) => ({ genre, share, usual: this.genres.get(genre), times: share / this.genres.get(genre) }))
      .filter(({ times, share }) => times > 1.1 && share > 0.03)
      .sort((a, b) => b.times - a.times)
      .slice(0, 4);
  }

  /** Rank correlation (Spearman) of the titles' popularity here and in the original. */
  get agreement() {
    const [a, b] = [ranks(this.items.map((item) => item.there)), ranks(this.items.map((item) => item.here))];
    const mean = (a.length + 1) / 2;
    let [ab, aa, bb] = [0, 0, 0];
    for (let i = 0; i < a.length; i++) {
      ab += (a[i] - mean) * (b[i] - mean);
      aa += (a[i] - mean) ** 2;
      bb += (b[i] - mean) ** 2;
    }
    return aa && bb ? ab / Math.sqrt(aa * bb) : NaN;
  }
}

/** A user with fractional likes as the titles that it likes most: as many as its likes add up to. */
function heaviest(user) {
  if (!user.weights) return user;
  const order = ordered(user.items.length, (at) => -user.weights[at]);
  const size = Math.max(1, Math.round(user.weights.reduce((sum, weight) => sum + weight, 0)));
  return { ...user, items: order.slice(0, size).map((at) => user.items[at]) };
}

function ordered(n, key) {
  const keys = Array.from({ length: n }, (_, at) => key(at));
  return keys.map((_, at) => at).sort((a, b) => keys[a] - keys[b] || a - b);
}

/** Ranks from 1; equal values share the mean of theirs. */
function ranks(values) {
  const order = ordered(values.length, (at) => values[at]);
  const out = new Float64Array(values.length);
  for (let from = 0; from < order.length; ) {
    let to = from;
    while (to < order.length && values[order[to]] === values[order[from]]) to += 1;
    for (let at = from; at < to; at++) out[order[at]] = (from + to + 1) / 2;
    from = to;
  }
  return out;
}

const norm = (v) => Math.sqrt(v.reduce((sum, x) => sum + x * x, 0));

function unit(v) {
  const length = norm(v) || 1;
  return v.map((x) => x / length);
}

function without(v, direction) {
  const along = v.reduce((sum, x, at) => sum + x * direction[at], 0);
  return v.map((x, at) => x - along * direction[at]);
}
