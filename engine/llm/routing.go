package llm

import (
	"math"
	"slices"

	"weir/engine/kernel"
	"weir/engine/kernel/weight"
)

// gating is how routing chooses experts by the router's scores, and what each of them counts.
type gating struct {
	by        gatingFunc // 0 where the file does not tell, which is softmax if the family does not, either
	preferred presence   // exp_probs_b.bias is added to probabilities where experts are chosen, and not to shares
	groups    int        // of experts, of which the usedGroups with the best two probabilities in sum are chosen from; 0 and 1 are none
	used      int
	norm      bool    // shares of a row are divided by their sum
	scale     float32 // then all are multiplied by it; 0 is 1
}

// gatingFunc makes probabilities of scores. Its numbers are those of GGUF's key expert_gating_func.
type gatingFunc uint8

const (
	gateSoftmax gatingFunc = 1 + iota // of all experts
	gateSigmoid
	gateChosen // softmax of those chosen
)

// leastShare is what sums of shares are divided by at least, as in GGUF's runtimes.
const leastShare = 0x1p-14

// readGating reads what a file says of routing; families have words of their own in it.
func readGating(m *metadata) gating {
	g := gating{
		norm: m.flag("expert_weights_norm", false), scale: float32(m.number("expert_weights_scale", 0)),
		groups: m.count("expert_group_count"), used: m.count("expert_group_used_count"),
	}
	switch v := m.count("expert_gating_func"); v {
	case 0:
	case int(gateSoftmax), int(gateSigmoid), int(gateChosen):
		g.by = gatingFunc(v)
	default:
		m.fail("expert_gating_func", "is %d; known are 1 (softmax), 2 (sigmoid) and 3 (softmax of those chosen)", v)
	}
	n := m.count("expert_count")
	switch {
	case g.groups < 2:
		g.groups = 0
	case n%g.groups != 0 || n/g.groups < 2:
		m.fail("expert_group_count", "is %d of %d experts", g.groups, n)
	case g.used < 1 || g.used > g.groups:
		m.fail("expert_group_used_count", "is %d of %d groups", g.used, g.groups)
	case g.used*(n/g.groups) < m.count("expert_used_count"):
		m.fail("expert_group_used_count", "is %d groups of %d experts, fewer than the expert_used_count %d", g.used, n/g.groups, m.count("expert_used_count"))
	}
	return g
}

// routing finds the experts of rows.
type routing struct {
	weight.Routes
	plan      *expertsPlan
	preferred []float32
	scale     []float32
	scores    []float32 // [rows][experts]
	keys      []float32 // as above: what is chosen by, where that is not the scores
	groups    []float32 // [rows][groups]
}

// begin takes in the scores of rows.
func (r *routing) begin(e *expertsPlan, x *moeWeights, scores []float32, rows int) {
	r.plan, r.preferred, r.scale, r.scores, r.Use = e, x.preferred, x.scale, scores, e.use
	if n := rows * e.use; cap(r.Expert) < n {
		r.Expert, r.Share = make([]int32, n+n/4), make([]float32, n+n/4)
	}
	r.Expert, r.Share = r.Expert[:rows*e.use], r.Share[:rows*e.use]
	if r.byProbability() {
		grow(&r.keys, rows*e.count)
		grow(&r.groups, rows*e.gating.groups)
	}
}

// run routes so many rows.
func (r *routing) run(c *kernel.CPU, rows int) { c.Run(r, rows, 1<<11/r.plan.count+1) }

// byProbability reports whether experts are chosen by something else than the order of their scores.
func (r *routing) byProbability() bool { return r.preferred != nil || r.plan.gating.groups > 0 }

// Do routes a row.
func (r *routing) Do(_, row int) {
	e := r.plan
	scores := r.scores[row*e.count : (row+1)*e.count]
	keys := scores
	top := float64(slices.Max(scores))
	if r.byProbability() {
		keys = r.keys[row*e.count : (row+1)*e.count]
		r.probabilities(keys, scores, top)
		if n := e.gating.groups; n > 0 {
			keepGroups(keys, r.groups[row*n:(row+1)*n], e.gating.used)
		}
	}
	expert, share := r.Expert[row*e.use:(row+1)*e.use], r.Share[row*e.use:(row+1)*e.use]
	best(expert, keys)
	slices.Sort(expert)
	r.shares(share, expert, scores, top)
}

// probabilities are what experts are chosen by: their probabilities, and what is preferred.
func (r *routing) probabilities(keys, scores []float32, top float64) {
	sum := 1.0
	if r.plan.gating.by <= gateSoftmax {
		sum = sumOfExp(scores, top)
	}
	for i, v := range scores {
		keys[i] = float32(r.plan.gating.probability(v, top, sum))
		if r.preferred != nil {
			keys[i] += r.preferred[i]
		}
	}
}

// probability of an expert by its score, in terms of the row's top score and, of softmaxes, of the sum of exp(score-top).
func (g gating) probability(score float32, top, sum float64) float64 {
	if g.by == gateSigmoid {
		return 1 / (1 + math.Exp(-float64(score)))
	}
	return math.Exp(float64(score)-top) / sum
}

func sumOfExp(scores []float32, top float64) float64 {
	sum := 0.0
	for _, v := range scores {
		sum += math.Exp(float64(v) - top)
	}
	return sum
}

// shares are what the chosen experts count.
func (r *routing) shares(share []float32, chosen []int32, scores []float32, top float64) {
	g, sum := r.plan.gating, 1.0
	if g.by <= gateSoftmax && !g.norm {
		sum = sumOfExp(scores, top)
	}
	total := 0.0
	for i, e := range chosen {
		p := g.probability(scores[e], top, sum)
		share[i] = float32(p)
		total += p
	}
	factor := 1.0
	if g.norm || g.by == gateChosen {
		factor = 1 / max(total, leastShare)
	}
	if g.scale != 0 {
		factor *= float64(g.scale)
	}
	for i, e := range chosen {
		f := factor
		if r.scale != nil {
			f *= float64(r.scale[e])
		}
		share[i] = float32(g.probability(scores[e], top, sum) * f)
	}
}

// best are the indices of the largest keys, of equals the first ones. Keys that are not numbers are none, except where others are too few.
func best(chosen []int32, keys []float32) {
	for i := range chosen {
		chosen[i] = int32(i)
		rise(chosen[:i+1], keys)
	}
	last := len(chosen) - 1
	for i := len(chosen); i < len(keys); i++ {
		if keys[i] > keys[chosen[last]] {
			chosen[last] = int32(i)
			rise(chosen, keys)
		}
	}
}

// rise brings the last index to its place among the others, which are in order.
func rise(chosen []int32, keys []float32) {
	for i := len(chosen) - 1; i > 0 && keys[chosen[i]] > keys[chosen[i-1]]; i-- {
		chosen[i], chosen[i-1] = chosen[i-1], chosen[i]
	}
}

// keepGroups makes the keys of all groups negative infinity except those of the used ones whose two best are the largest in sum.
func keepGroups(keys, sums []float32, used int) {
	size := len(keys) / len(sums)
	for g := range sums {
		a, b := float32(math.Inf(-1)), float32(math.Inf(-1))
		for _, v := range keys[g*size : (g+1)*size] {
			if v > a {
				a, b = v, a
			} else if v > b {
				b = v
			}
		}
		sums[g] = a + b
	}
	for g := range sums {
		better := 0
		for o, v := range sums {
			if v > sums[g] || v == sums[g] && o < g {
				better++
			}
		}
		if better < used {
			continue
		}
		for i := range size {
			keys[g*size+i] = float32(math.Inf(-1))
		}
	}
}
