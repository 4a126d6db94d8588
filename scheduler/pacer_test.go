package scheduler

import (
	"math"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/scheduler/cost"
)

// timedPacer has seen steps in which a row takes a millisecond and the step itself eight.
func timedPacer(cfg Config) *pacer {
	p := &pacer{cfg: &cfg, cost: cost.New(cost.Prior{Step: 8, Row: 1, Output: 0.001, Position: 1e-6})}
	for rows := 1; rows <= 64; rows++ {
		p.cost.Observe(cost.Load{Rows: rows}, time.Duration(8+rows)*time.Millisecond)
	}
	p.begin()
	return p
}

// prompt is a sequence with so many rows to compute.
func prompt(rows int) *sequence {
	return &sequence{req: &request{Request: Request{Prompt: make([]inference.TokenID, rows)}}, ids: make([]inference.TokenID, rows), slots: 1}
}

// output is a sequence whose next row continues an answer.
func output() *sequence {
	q := prompt(9)
	q.computed, q.produced = 8, 1
	return q
}

// The first step of all is small where time is bounded, since what rows take is not known.
func TestPacerMeasuresWithASmallStep(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		steps uint64
		want  int
	}{{time.Second, 0, 128}, {time.Second, 1, 1024}, {-1, 0, 1024}} {
		p := &pacer{cfg: &Config{MaxBatchTokens: 1024, StepLimit: c.limit, RowPanel: 4}, cost: cost.New(cost.Prior{})}
		p.begin()
		if p.pace(0, c.steps) || p.budget != c.want {
			t.Errorf("after %d steps with limit %v: %d rows, want %d", c.steps, c.limit, p.budget, c.want)
		}
	}
}

// Outputs bound a step by their target; prompts keep their part of it, and never less than a panel of rows.
func TestPacerKeepsTheTargetOfOutputs(t *testing.T) {
	cfg := Config{MaxBatchTokens: 1024, PrefillChunk: 1024, RowPanel: 4, StepLimit: time.Second, ITLTarget: 100 * time.Millisecond}
	p := timedPacer(cfg)
	p.count(output(), 1)
	if !p.pace(0, 1) {
		t.Error("prompts are not to be spread beside an output")
	}
	if p.target != cfg.ITLTarget || p.limit > cfg.ITLTarget || p.limit < p.promptFloor() || p.minPromptRows != cfg.RowPanel {
		t.Errorf("target %v, limit %v of at least %v, %d rows whatever they take", p.target, p.limit, p.promptFloor(), p.minPromptRows)
	}
	n := p.rowsWithin(prompt(512), 512, p.remaining())
	if took := p.cost.Estimate(p.load.Add(cost.Load{Rows: n})); n < 4 || n > 100 || (p.load.Rows+n)%4 != 0 || took > p.limit {
		t.Errorf("a prompt of 512 rows gets %d, which take %v of %v", n, took, p.limit)
	}

	alone := timedPacer(cfg)
	if alone.pace(0, 1) || alone.target != 0 || alone.minPromptRows != minRowsWithoutDecodes {
		t.Errorf("without outputs: target %v, %d rows whatever they take", alone.target, alone.minPromptRows)
	}
	alone.tenants.observe(1, "a")
	alone.tenants.observe(2, "b")
	if alone.pace(3, 1); alone.minPromptRows != minSharedRows {
		t.Errorf("with two tenants: %d rows whatever they take", alone.minPromptRows)
	}
}

func TestPacerCounts(t *testing.T) {
	p := timedPacer(Config{MaxBatchTokens: 64, PrefillChunk: 64, RowPanel: 4, StepLimit: -1})
	q, o := prompt(20), output()
	p.count(o, 1)
	o.rows = 1
	p.count(q, 20)
	q.rows = 20
	if p.budget != 43 || p.load.Rows != 21 || p.prompt != 20 || !p.finishes || p.classes[inference.Interactive] != 1 {
		t.Errorf("planned: %+v", p)
	}
	if !p.hasEnoughPromptRows(2) || p.hasEnoughPromptRows(11) {
		t.Error("20 rows and a finished prompt are enough for 10 requests")
	}
	p.count(q, -20)
	q.rows = 0
	p.count(o, -1)
	o.rows = 0
	if p.budget != 64 || p.load != (cost.Load{}) || p.prompt != 0 || p.classes[inference.Interactive] != 0 || p.limit != math.MaxInt64 {
		t.Errorf("taken back: %+v", p)
	}
}

// Requests with given outputs have no readers: their outputs set no target, and a step goes on behind the end of their prompts. Their rows
// are a batch of their own, whose panels are filled.
func TestPacerPacesNoGivenOutputs(t *testing.T) {
	cfg := Config{MaxBatchTokens: 1024, PrefillChunk: 1024, RowPanel: 6, StepLimit: time.Second, ITLTarget: 100 * time.Millisecond}
	given := func(q *sequence) *sequence {
		q.req.Given = [][]inference.TokenID{{1}}
		return q
	}
	p := timedPacer(cfg)
	o := given(output())
	if p.count(o, 1); p.pace(0, 1) || p.target != 0 || p.minPromptRows != minRowsWithoutDecodes {
		t.Errorf("target %v, %d rows whatever they take: as beside an output that somebody reads", p.target, p.minPromptRows)
	}
	o.rows = 1
	q := given(prompt(50))
	if p.count(q, 50); p.hasEnoughPromptRows(1) || !p.finishes {
		t.Error("a step ends behind a prompt whose answer nothing reads as it comes")
	}
	q.rows = 50
	if n := p.rowsWithin(given(prompt(512)), 512, p.remaining()); n == 0 || n == 512 || (51+n)%6 != 0 {
		t.Errorf("%d rows beside 51 are no whole panels", n)
	}
	if n := p.rowsWithin(prompt(512), 512, p.remaining()); n == 0 || n == 512 || n%6 != 0 {
		t.Errorf("%d rows of another batch are no whole panels", n)
	}
	if p.count(prompt(20), 20); !p.hasEnoughPromptRows(1) {
		t.Error("a chat's prompt that is finished does not end the step")
	}
}

// Known prompts are divided over steps of equal rows.
func TestPacerSpreads(t *testing.T) {
	p := timedPacer(Config{MaxBatchTokens: 1024, RowPanel: 4})
	p.outputs.Rows = 1
	if p.spread(80); p.budget != 1024 {
		t.Errorf("80 rows fit into one step, %d are allowed", p.budget)
	}
	if p.spread(200); p.budget != 67 { // three steps of 67 rows, and with the output 68 rows: whole panels
		t.Errorf("200 rows: %d are allowed, want 67", p.budget)
	}
}
