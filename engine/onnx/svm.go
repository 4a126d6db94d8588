package onnx

import (
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// machine is what support vector machines share: vectors and a kernel function.
type machine struct {
	vectors                []float32 // [count, features]
	turned                 []float32 // [features, count], for kernels of products
	count, features        int
	function               string
	gamma, constant, power float32
}

// machineOf reads the support vectors; without any, the model is linear.
func machineOf(r *attributeReader, count int64, vectors []float32) (*machine, error) {
	m := &machine{vectors: vectors, count: int(count), function: r.str("kernel_type", "LINEAR")}
	if !slices.Contains([]string{"LINEAR", "POLY", "RBF", "SIGMOID"}, m.function) {
		return nil, fmt.Errorf("kernel_type %q is unknown", m.function)
	}
	if p := r.floats("kernel_params"); len(p) >= 3 {
		m.gamma, m.constant, m.power = p[0], p[1], p[2]
	} else if m.function != "LINEAR" {
		return nil, fmt.Errorf("%d kernel_params; 3 are needed", len(p))
	}
	if count <= 0 || int64(len(vectors))%count != 0 || len(vectors) == 0 {
		return nil, fmt.Errorf("%d support vectors of %d numbers together", count, len(vectors))
	}
	m.features = len(vectors) / m.count
	m.turned = transposed(vectors, m.count, m.features)
	return m, nil
}

// similarities are the kernel's values of a row with each support vector.
func (m *machine) similarities(to, x []float32) {
	if m.function == "RBF" {
		for i := range m.count {
			sum := float32(0)
			for j, v := range m.vectors[i*m.features : (i+1)*m.features] {
				d := x[j] - v
				sum += float32(d * d)
			}
			to[i] = exp32(-m.gamma * sum)
		}
		return
	}
	multiply32(to, x, m.turned, 1, m.features, m.count)
	for i, s := range to {
		switch m.function {
		case "POLY":
			to[i] = m.raised(fused(m.gamma, s, m.constant))
		case "SIGMOID":
			to[i] = float32(math.Tanh(float64(fused(m.gamma, s, m.constant))))
		}
	}
}

func (m *machine) raised(x float32) float32 {
	switch m.power {
	case 2:
		return x * x
	case 3:
		return x * x * x
	}
	return float32(math.Pow(float64(x), float64(m.power)))
}

func (m *machine) rows(c *call) (int64, error) {
	rows, columns, err := table(c.in(0))
	if err == nil && columns != int64(m.features) {
		err = fmt.Errorf("rows have %d columns; the model has %d", columns, m.features)
	}
	return rows, err
}

func svmRegressor(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	if err := n.oneOf(0, tensor.Float32); err != nil {
		return nil, err
	}
	if t := n.str("post_transform", "NONE"); t != "NONE" {
		return nil, fmt.Errorf("post_transform %s is not supported; %s", t, wayOut)
	}
	weights, rho, one := n.floats("coefficients"), n.floats("rho"), n.integer("one_class", 0) != 0
	count, vectors := n.integer("n_supports", 0), n.floats("support_vectors")
	if len(rho) < 1 || len(weights) == 0 {
		return nil, fmt.Errorf("%d coefficients and %d rho", len(weights), len(rho))
	}
	n.gives(tensor.Float32)
	linear := count == 0
	if linear { // one vector, the coefficients, of weight 1
		n.ignore("kernel_type", "kernel_params")
		count, vectors = 1, weights
	}
	m, err := machineOf(&n.attributeReader, count, vectors)
	if err != nil {
		return nil, err
	}
	if !linear && len(weights) != m.count {
		return nil, fmt.Errorf("%d coefficients for %d support vectors", len(weights), m.count)
	}
	return func(c *call) error {
		rows, err := m.rows(c)
		if err != nil {
			return err
		}
		out, err := c.out(0, rows, 1)
		if err != nil {
			return err
		}
		near, err := scratch[float32](c, m.count)
		if err != nil {
			return err
		}
		x, to := tensor.Values[float32](c.in(0)), tensor.Values[float32](out)
		for r := range to {
			m.similarities(near, x[r*m.features:(r+1)*m.features])
			sum := near[0]
			if !linear {
				sum = 0
				for i, w := range weights {
					sum = fused(w, near[i], sum)
				}
			}
			to[r] = sum + rho[0]
			if one {
				to[r] = 2*float32(bit(to[r] > 0)) - 1
			}
		}
		return nil
	}, nil
}

// voting is a classifier by support vectors: one decision for each pair of classes.
type voting struct {
	*machine
	classes
	transform
	weights      []float32 // [classes-1, vectors]
	rho          []float32 // by pair
	first, per   []int     // of each class: its first vector, and how many it has
	probA, probB []float32 // of the pairs' probabilities; nil: none
	pairs        int
}

func svmClassifier(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	if err := n.oneOf(0, numeric...); err != nil {
		return nil, err
	}
	v := &voting{
		classes: classesOf(&n.attributeReader, "classlabels_ints", "classlabels_strings"),
		weights: n.floats("coefficients"), rho: n.floats("rho"),
		probA: n.floats("prob_a"), probB: n.floats("prob_b"),
	}
	var err error
	if v.transform, err = transformOf(&n.attributeReader); err != nil {
		return nil, err
	}
	total := int64(0)
	per := n.integers("vectors_per_class")
	for _, count := range per {
		if count < 0 || count > math.MaxInt32 {
			return nil, fmt.Errorf("a class has %d vectors", count)
		}
		v.first, v.per = append(v.first, int(total)), append(v.per, int(count))
		total += count
	}
	vectors := n.floats("support_vectors")
	classifier(&n.results, &v.classes)
	if total == 0 {
		return v.linear(n)
	}
	if v.machine, err = machineOf(&n.attributeReader, total, vectors); err != nil {
		return nil, err
	}
	k := v.classes.count()
	v.pairs = k * (k - 1) / 2
	switch {
	case k < 2 || k > 1024 || k != len(per):
		return nil, fmt.Errorf("%d classes with vectors of %d", k, len(per))
	case len(v.weights) < (k-1)*v.machine.count || len(v.rho) < v.pairs:
		return nil, fmt.Errorf("%d coefficients and %d rho for %d vectors of %d classes", len(v.weights), len(v.rho), v.machine.count, k)
	case len(v.probA) != len(v.probB) || v.probA != nil && len(v.probA) < v.pairs:
		return nil, fmt.Errorf("%d prob_a and %d prob_b for %d classes", len(v.probA), len(v.probB), k)
	}
	if v.probA == nil && k > 2 {
		n.labels = nil // the scores are those of pairs
	}
	return v.run, nil
}

// linear is the classifier without support vectors: one row of coefficients per class.
func (v *voting) linear(n *node) (kernel, error) {
	n.ignore("kernel_type", "kernel_params")
	k := v.classes.count()
	if k == 0 || len(v.rho) < 1 || len(v.weights)%k != 0 || len(v.weights) == 0 {
		return nil, fmt.Errorf("%d coefficients and %d rho for %d classes", len(v.weights), len(v.rho), k)
	}
	features := len(v.weights) / k
	positive := !slices.ContainsFunc(v.weights, func(w float32) bool { return !(w >= 0) })
	a := &affine{transposed(v.weights, k, features), nil, features, k}
	return func(c *call) error {
		rows, err := a.rows(c)
		if err != nil {
			return err
		}
		x, err := c.floats(0)
		if err != nil {
			return err
		}
		return scored(c, &v.classes, rows, int64(k), func(r int, scores []float32) int {
			a.scores(scores, x[r*features:(r+1)*features], 1)
			for i := range scores {
				scores[i] += v.rho[0]
			}
			best := greatest(scores)
			if k == 2 && (positive && scores[best] >= 0.5 || !positive && scores[best] > 0) {
				best = 1
			}
			v.apply(scores)
			return best
		})
	}, nil
}

func (v *voting) run(c *call) error {
	rows, err := v.rows(c)
	if err != nil {
		return err
	}
	x, err := c.floats(0)
	if err != nil {
		return err
	}
	k := v.classes.count()
	width := int64(k)
	if v.probA == nil && k > 2 {
		width = int64(v.pairs)
	}
	near, decisions, votes := make([]float32, v.machine.count), make([]float32, v.pairs), make([]int, k)
	return scored(c, &v.classes, rows, width, func(r int, scores []float32) int {
		v.similarities(near, x[r*v.features:(r+1)*v.features])
		v.decide(near, decisions, votes)
		switch {
		case v.probA != nil:
			v.probabilities(scores, decisions)
			v.apply(scores)
		case k > 2:
			copy(scores, decisions)
			v.apply(scores)
		default:
			v.both(scores, decisions[0])
		}
		best := 0
		for i := range votes {
			if votes[i] > votes[best] {
				best = i
			}
		}
		return best
	})
}

// decide lets every pair of classes vote.
func (v *voting) decide(near, decisions []float32, votes []int) {
	clear(votes)
	pair := 0
	for i := range v.per {
		for j := i + 1; j < len(v.per); j++ {
			sum := 0.0
			for m := v.first[i]; m < v.first[i]+v.per[i]; m++ {
				sum += float64(float32(v.weights[(j-1)*v.machine.count+m] * near[m]))
			}
			for m := v.first[j]; m < v.first[j]+v.per[j]; m++ {
				sum += float64(float32(v.weights[i*v.machine.count+m] * near[m]))
			}
			sum += float64(v.rho[pair])
			decisions[pair] = float32(sum)
			pair++
			if sum > 0 {
				votes[i]++
			} else {
				votes[j]++
			}
		}
	}
}

// both fills the scores of two classes from one decision.
func (v *voting) both(scores []float32, x float32) {
	scores[1] = x
	switch v.transform {
	case asIs:
		scores[0] = -x
	case probit:
		scores[1] = probit32(x)
		scores[0] = 1 - scores[1]
	default:
		scores[0] = 1 - x
	}
}

// probabilities couples the pairs' probabilities by the method of Wu, Lin and Weng (2004).
func (v *voting) probabilities(p, decisions []float32) {
	k := len(p)
	r := make([]float32, k*k)
	pair := 0
	for i := range k {
		for j := i + 1; j < k; j++ {
			one := 1 - logistic32(float32(decisions[pair]*v.probA[pair])+v.probB[pair])
			one = min(max(one, 1e-7), 1-1e-7)
			r[i*k+j], r[j*k+i] = one, 1-one
			pair++
		}
	}
	couple(p, r)
}

// couple finds the class probabilities p that fit the pairs' r[i,j] best.
func couple(p, r []float32) {
	k := len(p)
	q, qp := make([]float32, k*k), make([]float32, k)
	for i := range k {
		p[i] = 1 / float32(k)
		for j := range k {
			if j == i {
				continue
			}
			q[i*k+i] += float32(r[j*k+i] * r[j*k+i])
			if j < i {
				q[i*k+j] = q[j*k+i]
			} else {
				q[i*k+j] = -float32(r[j*k+i] * r[i*k+j])
			}
		}
	}
	for range 100 {
		total := float32(0)
		for i := range k {
			qp[i] = 0
			for j := range k {
				qp[i] += float32(q[i*k+j] * p[j])
			}
			total += float32(p[i] * qp[i])
		}
		worst := float32(0)
		for i := range k {
			worst = max(worst, abs32(qp[i]-total))
		}
		if worst < 0.005/float32(k) {
			return
		}
		for i := range k {
			diff := (-qp[i] + total) / q[i*k+i]
			p[i] += diff
			total = (total + float32(diff*(float32(diff*q[i*k+i])+2*qp[i]))) / (1 + diff) / (1 + diff)
			for j := range k {
				qp[j] = (qp[j] + float32(diff*q[i*k+j])) / (1 + diff)
				p[j] /= 1 + diff
			}
		}
	}
}
