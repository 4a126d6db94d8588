package classic

import (
	"time"

	"weir/internal/tensor"
)

// job is a batch that is computed in pieces, in one turn at the pool or more.
type job struct {
	v     *Version
	tasks []*task
	rows  int
	in    []tensor.Tensor
	at    int // rows [0,at) are computed
	out   [][]tensor.Tensor
	took  time.Duration // on all cores together
	err   error

	// The turn's pieces, which workers take.
	piece, end int // rows [at,end), so many in a piece
	first      int // index in out
	errs       []error
	times      []time.Duration
}

// rest is what a core probably takes for the rows that are not computed.
func (j *job) rest() time.Duration { return j.v.Estimate(j.rows - j.at) }

// pieceTime is the least that a worker is woken for.
const pieceTime = 50 * time.Microsecond

// plan decides which rows the turn computes, and in which pieces: as many as take all
// workers the turn's time. Rows that depend on each other are computed at once.
func (j *job) plan(workers int, turn time.Duration) {
	left := j.rows - j.at
	j.piece, j.end = left, j.rows
	if j.v.separable {
		j.piece = min(max((left+workers-1)/workers, j.v.rowsWithin(pieceTime)), j.v.rowsWithin(turn), left)
		j.end = min(j.at+j.piece*workers, j.rows)
	}
	n := (j.end - j.at + j.piece - 1) / j.piece
	j.first = len(j.out)
	j.out = append(j.out, make([][]tensor.Tensor, n)...)
	j.errs, j.times = make([]error, n), make([]time.Duration, n)
}

// Do computes one piece, on a worker of the pool.
func (j *job) Do(_, item int) {
	begin := time.Now()
	from := j.at + item*j.piece
	in, to := j.in, min(from+j.piece, j.end)
	whole := from == 0 && to == j.rows
	if !whole {
		in = parts(in, from, to)
	}
	out, err := j.v.compute(in)
	if err == nil && (!whole || len(j.tasks) > 1) {
		err = checkRows(out, to-from)
	}
	j.out[j.first+item], j.errs[item], j.times[item] = out, err, time.Since(begin)
}

// collect takes in what the turn has computed.
func (j *job) collect() {
	for i, err := range j.errs {
		j.took += j.times[i]
		switch {
		case err == nil:
			j.v.observe(min(j.piece, j.end-j.at-i*j.piece), j.times[i])
		case j.err == nil:
			j.err = err
		}
	}
	j.at = j.end
}

// split makes each request of a failed batch a batch of its own.
func (j *job) split() []*job {
	alone, from := make([]*job, len(j.tasks)), 0
	for i, t := range j.tasks {
		alone[i] = &job{v: j.v, tasks: j.tasks[i : i+1], rows: t.rows, in: parts(j.in, from, from+t.rows)}
		from += t.rows
	}
	return alone
}

// answer writes the answers of a batch that is computed, or failed with one request.
func (j *job) answer() {
	if j.err != nil {
		t := j.tasks[0]
		t.err, t.computed, t.batch = j.err, j.took, j.rows
		j.v.count(t)
		return
	}
	out := j.out[0]
	if len(j.out) > 1 {
		out = join(j.out)
	}
	deliver(j.tasks, out, j.took)
}
