package scheduler

import (
	"math"
	"sort"
	"time"

	"weir/internal/inference"
	"weir/scheduler/cost"
)

// pacer decides what a step may take, in rows and in time, and counts what is planned. Time is that of the
// estimate (package cost), which is learned from the steps before.
type pacer struct {
	cfg  *Config
	cost *cost.Model

	tenants recentTenants // of the requests submitted

	// What follows is of the step in the making.
	budget        int                       // rows left
	load          cost.Load                 // of the planned rows
	outputs       cost.Load                 // of these, the rows that continue outputs
	rows          [2]int                    // planned: those that are computed finely apart, which are a batch of their own
	classes       [inference.NumClasses]int // outputs of each class that have rows and readers
	target        time.Duration             // for the inter-token latency of these; 0 is none
	prompt        int                       // planned rows of prompts
	finishes      bool                      // the last row of a prompt is among them
	answers       bool                      // of one whose answer is read as it comes
	limit         time.Duration             // that the step may take by its estimate
	minPromptRows int                       // always allowed, whatever the estimate of their time
	unfinished    int                       // rows that new prompts could take which the step cannot finish
}

// begin starts a step: nothing is planned yet.
func (p *pacer) begin() {
	*p = pacer{cfg: p.cfg, cost: p.cost, tenants: p.tenants, budget: p.cfg.MaxBatchTokens, limit: math.MaxInt64}
}

// A step without outputs may take prompts for as long as maxStepRatio times the
// shortest possible step, so that reading the weights once more for the next
// step costs a few percent at most; a request that arrives meanwhile, or a
// cancel, waits no longer than that. It has room for minRowsWithoutDecodes rows whatever
// they take, since fewer would leave the kernels half idle. Where several tenants have sent requests within
// recentTenantTime, steps are shorter (maxSharedStepRatio, minSharedRows), since a step full of one tenant's rows
// delays the first tokens of the others.
const (
	maxStepRatio          = 24
	maxSharedStepRatio    = 12
	minRowsWithoutDecodes = 64
	minSharedRows         = 32
)

// maxRowsGrowth bounds a step whose time is bounded to so many times the rows of any before it: the first steps are small, and what
// many rows take is not known from them.
const maxRowsGrowth = 2

// A step beside outputs leaves prompts a part of its time however long the outputs
// take: outputs slow prompts down, they do not stop them. That part is promptShare
// of the inter-token target, or the time that promptFloorRows rows at the start of a
// prompt take where that time is longer, as on a slow machine: with less, clients
// in a closed loop would wait longer for a first token than they gain between
// tokens. The part is a time and not a number of rows, since rows deep in a long
// prompt take many times as long.
const (
	promptShare     = 0.25
	promptFloorRows = 40
)

// Beside outputs, prompts get spreadRows rows of a step at most, or spreadPerOutput for each
// output where that is more: with so many the kernels take hardly longer for a row
// than with all of a prompt, and the outputs little of the step.
const (
	spreadRows      = 64
	spreadPerOutput = 16
)

// restart lifts what bounds the time of the step in the making: it is decided again.
func (p *pacer) restart() { p.limit = math.MaxInt64 }

// shorten bounds the time of the step in the making, with no rows allowed beyond it.
func (p *pacer) shorten(limit time.Duration) { p.limit, p.minPromptRows = limit, 0 }

// allowance is what one prompt may take of a step.
type allowance struct {
	rows    int
	time    time.Duration // that the whole step may take then
	minRows int           // rows that are granted whatever they take
}

// A step that finishes a prompt and has enoughRows rows of prompts, or rowsPerRequest for each
// request that runs or waits where that is more, takes no further prompt: its rows
// would cost as much in the next step, and here they delay a first token and every output.
// Requests whose prompts were finished in one step would end in one step as well, send
// their next prompts together, and wait for each other in every round. The more
// requests there are, the more it counts that the kernels have many rows at a time.
// Requests with given outputs have no reader between, and are asked many at a time: neither do their prompts end a step,
// nor do their outputs have a target.
const (
	enoughRows     = 16
	rowsPerRequest = 2
)

// pace decides how long the step may take, once the rows of running outputs
// are planned. Beside outputs that is the share of the inter-token target with
// which all but one step in a hundred keep the target, learned from how steps
// compare with their estimates. The first step of all is short: it measures.
//
// It reports whether the prompts that are known are to be divided over several steps (spread).
func (p *pacer) pace(now int64, steps uint64) bool {
	p.outputs = p.load
	p.minPromptRows = minRowsWithoutDecodes
	several := p.tenants.several(now)
	if several {
		p.minPromptRows = minSharedRows
	}
	p.target = p.strictest()
	if !p.cost.Ready() {
		if p.cfg.StepLimit > 0 && steps == 0 {
			p.budget = min(p.budget, max(minRowsWithoutDecodes, p.cfg.MaxBatchTokens/8))
		}
		return false
	}
	p.limit = p.longest(several)
	if p.limit < math.MaxInt64 {
		p.budget = min(p.budget, max(minRowsWithoutDecodes, maxRowsGrowth*p.cost.Rows()))
	}
	if p.target == 0 {
		return false
	}
	paced := time.Duration(float64(p.target) * p.cost.Share())
	p.limit = min(p.limit, max(paced, p.promptFloor()))
	p.minPromptRows = p.cfg.RowPanel
	return p.outputs.Rows > 0
}

// longest is how long a step with the outputs that are planned may take.
func (p *pacer) longest(several bool) time.Duration {
	shortest := p.cost.Estimate(cost.Load{Rows: 1})
	switch {
	case p.cfg.StepLimit < 0:
		return math.MaxInt64
	case several:
		return min(p.cfg.StepLimit, p.cost.Estimate(p.outputs)+maxSharedStepRatio*shortest)
	default:
		return min(p.cfg.StepLimit, maxStepRatio*shortest)
	}
}

// strictest is the least inter-token target of the classes that outputs have rows
// of in this step; 0 is none.
func (p *pacer) strictest() time.Duration {
	least := time.Duration(0)
	for c, n := range p.classes {
		target := p.cfg.ClassITLTarget[c]
		if target == 0 && inference.Class(c) != inference.Batch {
			target = p.cfg.ITLTarget
		}
		if n > 0 && target > 0 && (least == 0 || target < least) {
			least = target
		}
	}
	return least
}

// promptFloor is how long a step may take in any case, so that prompts get their
// part of it.
func (p *pacer) promptFloor() time.Duration {
	share := p.cost.Estimate(p.outputs) + time.Duration(float64(p.target)*promptShare)
	return max(share, p.cost.Estimate(p.outputs.Add(cost.Load{Rows: promptFloorRows})))
}

// remaining is all that is left of the step.
func (p *pacer) remaining() allowance {
	return allowance{p.budget, p.limit, p.minPromptRows - p.prompt}
}

// hasEnoughPromptRows reports whether the step finishes a prompt for a reader and has enough rows of prompts, where so many requests run or wait.
func (p *pacer) hasEnoughPromptRows(requests int) bool {
	return p.answers && p.prompt >= max(enoughRows, rowsPerRequest*requests)
}

// spread divides the prompts that are known over steps of equal rows. A row of a prompt
// costs the same in each of them, and every further step gives each output a token while the
// weights are read anyway.
func (p *pacer) spread(rows int) {
	outputs := p.outputs.Rows
	most := max(spreadRows, spreadPerOutput*outputs)
	steps := (rows + most/2) / most
	if steps < 2 {
		return
	}
	panels := (outputs + (rows+steps-1)/steps + p.cfg.RowPanel - 1) / p.cfg.RowPanel
	p.budget = min(p.budget, panels*p.cfg.RowPanel-outputs)
}

// guaranteed is the quarter of the step that the oldest prompt may take before
// shorter ones, and at least a panel of rows, so that none starves.
func (p *pacer) guaranteed() allowance {
	a := p.remaining()
	a.rows = min(a.rows, max(a.rows/4, p.cfg.RowPanel))
	a.minRows = max(a.minRows/4, p.cfg.RowPanel)
	if p.limited() {
		a.time -= max(0, a.time-p.cost.Estimate(p.load)) / 4 * 3
	}
	return a
}

func (p *pacer) limited() bool { return p.limit < math.MaxInt64 }

// hasRoom reports whether the step has room for a new sequence.
func (p *pacer) hasRoom(requests int) bool {
	if p.budget <= p.unfinished || p.hasEnoughPromptRows(requests) {
		return false
	}
	if !p.limited() || p.prompt+p.unfinished < p.minPromptRows {
		return true
	}
	return p.cost.Estimate(p.load.Add(cost.Load{Rows: p.unfinished + p.cfg.RowPanel, Outputs: 1})) <= p.limit
}

// rowsWithin cuts n further rows of a prompt to what the allowance has time for. Where
// it cuts, the step's rows end on a whole panel of the kernels, for which a
// part of one takes as long.
func (p *pacer) rowsWithin(q *sequence, n int, a allowance) int {
	if !p.limited() || n <= 0 {
		return n
	}
	without := p.load.Sub(q.load(q.rows, p.cfg.Attention))
	k := sort.Search(n, func(i int) bool { return p.cost.Estimate(without.Add(q.load(q.rows+i+1, p.cfg.Attention))) > a.time })
	if k < n {
		k = max(0, k-(p.rows[q.batch()]+k)%p.cfg.RowPanel)
	}
	return max(k, min(n, a.minRows))
}

// count books n further rows of a sequence, or takes them back.
func (p *pacer) count(q *sequence, n int) {
	p.budget -= n
	p.rows[q.batch()] += n
	p.load = p.load.Sub(q.load(q.rows, p.cfg.Attention)).Add(q.load(q.rows+n, p.cfg.Attention))
	switch {
	case !q.decoding():
		p.prompt += n
		finishes := n > 0 && q.rows+n == q.pending()
		p.finishes, p.answers = p.finishes || finishes, p.answers || finishes && q.req.Given == nil
	case q.req.Given != nil:
	case q.rows == 0:
		p.classes[q.req.Class]++
	case q.rows+n == 0:
		p.classes[q.req.Class]--
	}
}

// recentTenantTime is how long a tenant that sent a request counts as present.
const recentTenantTime = 10 * time.Second

// recentTenants knows whether several tenants have sent requests recently.
type recentTenants struct {
	tenant string // of the last request
	at     int64  // when that came
	other  int64  // when the last one of another tenant came; 0 is never
}

func (c *recentTenants) observe(now int64, tenant string) {
	if c.at != 0 && c.tenant != tenant {
		c.other = c.at
	}
	c.tenant, c.at = tenant, now
}

func (c *recentTenants) several(now int64) bool {
	return c.other != 0 && now-c.other <= int64(recentTenantTime)
}
