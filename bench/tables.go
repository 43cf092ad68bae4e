package bench

// A Table is all runs of one scenario with one type of queue, for renderers that draw.
type Table struct {
	Scenario  ScenarioInfo
	QueueType string
	Rows      []Row // in the order in which the subjects were first measured
	Grid      Grid  // the same as text
	Details   []Grid
}

// A Row is one subject with its repetitions; there is at least one.
type Row struct {
	Name string
	Runs []Run
}

// Tables groups the runs as Grids does.
func (r *Report) Tables() []Table {
	var out []Table
	for _, group := range groupBy(r.Runs, table) {
		name := rowName(group)
		t := Table{Scenario: r.info(group[0].Scenario), QueueType: group[0].QueueType, Grid: r.grid(group)}
		for _, runs := range groupBy(group, name) {
			t.Rows = append(t.Rows, Row{name(runs[0]), runs})
		}
		for _, detail := range []Grid{byHops(group), byDelay(group)} {
			if len(detail.Rows) > 0 {
				t.Details = append(t.Details, detail)
			}
		}
		out = append(out, t)
	}
	return out
}

func (r *Report) info(scenario string) ScenarioInfo {
	for _, info := range r.Scenarios {
		if info.Name == scenario {
			return info
		}
	}
	return ScenarioInfo{Name: scenario}
}

// First is the first repetition that measured something, else the first.
func (row Row) First() Run {
	for _, run := range row.Runs {
		if run.Delivered > 0 {
			return run
		}
	}
	return row.Runs[0]
}

// Median is that of a figure over the repetitions, with the lowest and the highest; 0 is a figure that was not
// measured, and does not count.
func (row Row) Median(value func(Run) float64) (middle, lowest, highest float64) {
	var values []float64
	for _, run := range row.Runs {
		if v := value(run); v != 0 {
			values = append(values, v)
		}
	}
	return median(values), bestOf(values, false), bestOf(values, true)
}

// Sum is that of a count over the repetitions.
func (row Row) Sum(n func(Run) int) int {
	sum := 0
	for _, run := range row.Runs {
		sum += n(run)
	}
	return sum
}
