package chat

// expression is a node that gives a value.
type expression interface {
	eval(x *exec) (Value, error)
}

// statement is a node that writes to the output and changes variables.
type statement interface {
	exec(x *exec) (signal, error)
}

// signal says how a statement ended.
type signal uint8

const (
	signalNext signal = iota
	signalBreak
	signalContinue
)

// symbol is a variable's name and its number in the template, which indexes
// the context.
type symbol struct {
	name string
	id   int
}

type (
	constExpr struct{ value Value }
	nameExpr  struct{ symbol symbol }
	tupleExpr struct{ items []expression }
	listExpr  struct{ items []expression }
	dictExpr  struct{ keys, values []expression }
	attrExpr  struct {
		object expression
		name   string
	}
	indexExpr struct{ object, index expression }
	sliceExpr struct{ object, from, to, step expression } // nil where not given
	callExpr  struct {
		callee expression
		args   arguments
		line   int
	}
	filterExpr struct {
		object expression
		name   string
		filter filter // nil: unknown, an error when reached
		args   arguments
		line   int
	}
	testExpr struct {
		object expression
		name   string
		test   test // nil: unknown, an error when reached
		args   arguments
		line   int
	}
	notExpr  struct{ operand expression }
	signExpr struct {
		operand expression
		minus   bool
	}
	binaryExpr struct {
		op          string
		left, right expression
	}
	concatExpr  struct{ items []expression }
	andExpr     struct{ left, right expression }
	orExpr      struct{ left, right expression }
	compareExpr struct {
		first expression
		rest  []comparison
	}
	comparison struct {
		op      string // also "in", "not in"
		operand expression
	}
	condExpr struct{ test, then, otherwise expression } // otherwise may be nil
	// capturedExpr is the text that a filter block or filtered set block hands
	// to its filters.
	capturedExpr struct{}
)

// arguments are the unevaluated arguments of a call, filter or test.
type arguments struct {
	positional []expression
	names      []string // one per item of named
	named      []expression
	star       expression // *args, or nil
	starStar   expression // **kwargs, or nil
}

type (
	textStmt  struct{ text string }
	printStmt struct {
		value expression
		line  int
	}
	ifStmt struct {
		branches  []branch
		otherwise []statement
		line      int
	}
	branch struct {
		test expression
		body []statement
	}
	forStmt struct {
		target    target
		iterable  expression
		test      expression // nil without inline if
		recursive bool
		body      []statement
		otherwise []statement
		loop      symbol
		line      int
	}
	setStmt struct {
		target target
		value  expression
		line   int
	}
	setBlockStmt struct {
		target target
		filter expression // over capturedExpr, or nil
		body   []statement
		line   int
	}
	macroStmt struct {
		name  symbol
		macro *macroBody
	}
	callStmt struct {
		call   *callExpr
		caller *macroBody
		line   int
	}
	filterStmt struct {
		filter expression
		body   []statement
		line   int
	}
	withStmt struct {
		targets []target
		values  []expression
		body    []statement
		line    int
	}
	scopeStmt    struct{ body []statement } // {% generation %}
	breakStmt    struct{}
	continueStmt struct{}
)

// macroBody is what macros and call blocks have in common.
type macroBody struct {
	name       string // "" for a call block
	params     []symbol
	defaults   []expression // of the last parameters
	body       []statement
	caller     symbol // implicit parameters, where the body uses them
	varargs    symbol
	kwargs     symbol
	useCaller  bool
	useVarargs bool
	useKwargs  bool
	line       int
}

// target is the left side of an assignment: a name, a namespace attribute
// (attribute not empty) or a tuple of targets.
type target struct {
	symbol    symbol
	attribute string
	tuple     []target // nil for a name
}
