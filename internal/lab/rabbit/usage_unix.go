//go:build unix

package rabbit

import "fmt"

// treeUsage adds up what a process and all below it have used.
func treeUsage(root int) (usage, error) {
	all, err := processes()
	if err != nil {
		return usage{}, err
	}
	var total usage
	for _, p := range descendants(all, root) {
		total.cpu += p.cpu
		total.rss += p.rss
		total.written += written(p.pid)
	}
	if total.rss == 0 {
		return total, fmt.Errorf("rabbit: the broker's process %d is not running", root)
	}
	return total, nil
}

// descendants are the process itself and all below it.
func descendants(all []process, root int) []process {
	children := map[int][]process{}
	var found []process
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
		if p.pid == root {
			found = append(found, p)
		}
	}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}
