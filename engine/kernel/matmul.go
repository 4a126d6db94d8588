package kernel

// grainMACs is the least work, in multiply-adds, that is worth a claim on the
// pool's counter (some 10 us of portable code).
const grainMACs = 32 << 10

// MatMul computes dst[i][o] = sum_c x[i][c]*m[o][c] + bias[o] for rows rows:
// x is [rows][m.Cols], dst [rows][m.Rows], bias [m.Rows] or nil. Weights are
// decoded once per call and used for all rows; each sum runs in the same
// order whatever rows is.
func (c *CPU) MatMul(dst []float32, m *Matrix, x []float32, rows int, bias []float32) {
	if rows == 0 {
		return
	}
	c.reserve(m.Cols)
	c.product = product{cpu: c, dst: dst, x: x, m: m, rows: rows, bias: bias}
	c.pool.Run(&c.product, m.Rows, grainMACs/(m.Cols*rows)+1)
}

type product struct {
	cpu  *CPU
	dst  []float32
	x    []float32
	m    *Matrix
	rows int
	bias []float32
}

// Do computes output o of every row.
func (j *product) Do(worker, o int) {
	w := j.m.row(o, j.cpu.scratch[worker])
	bias := float32(0)
	if j.bias != nil {
		bias = j.bias[o]
	}
	for i := range j.rows {
		x := j.x[i*j.m.Cols : (i+1)*j.m.Cols]
		j.dst[i*j.m.Rows+o] = dot(w, x) + bias
	}
}

// dot sums a[i]*b[i] in eight interleaved partial sums, folded pairwise at the
// end; len(b) >= len(a).
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for len(a) >= 8 && len(b) >= 8 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		s4 += a[4] * b[4]
		s5 += a[5] * b[5]
		s6 += a[6] * b[6]
		s7 += a[7] * b[7]
		a, b = a[8:], b[8:]
	}
	for i, v := range a {
		s0 += v * b[i]
	}
	return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
}

// axpy adds f*x to y; len(x) >= len(y).
func axpy(y []float32, f float32, x []float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] += f * x[i]
	}
}
