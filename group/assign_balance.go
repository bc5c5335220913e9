package group

import "slices"

// network is the plan of all classes seen as a flow: partitions run from their class to a member and from there to one
// common sink. Its cost is the sum over members of load·(load-1)/2, times unit, minus the number of partitions that stay
// with their owner; unit is larger than any number of partitions, so that balance always comes first.
//
// Why the cheapest flow is the answer. The sum of squared loads is least exactly for the loads that are least when
// compared from the fullest member down: the possible load vectors are the integer points of a base polytope, and in it
// one vector, up to order, minimizes every symmetric convex cost at once. A flow is cheapest exactly if its residual graph
// has no cycle of negative cost, as costs are convex on every edge. So: start from any flow, and turn it along negative
// cycles until none is left. Each turn lowers an integer that is bounded below, so this ends.
//
// Nodes of the residual graph are numbered: members, then classes, then the sink. Its edges and what a partition more
// along each of them costs:
//
//	class → member   -1 if the member still owns one that it is not to keep, else 0
//	member → class   +1 if the member must give up one that it owns, else 0
//	member → sink    load · unit
//	sink → member    -(load-1) · unit
type network struct {
	classes []class
	load    []int // by member
	unit    int

	cost []int // by node: of the cheapest way found so far
	from []int // by node: where that way comes from, -1 at its start
	edge []int // by node: the position, in the class at one end of the last edge, of the member at its other end
	seen []int // by node: the walk of cycles that came by
}

// balance plans classes for the best balance and, given that, the fewest moves.
func balance(classes []class, members int) {
	n := network{classes: classes, load: make([]int, members), unit: 1}
	for i := range classes {
		n.unit += classes[i].size()
	}
	nodes := members + len(classes) + 1
	n.cost, n.from = make([]int, nodes), make([]int, nodes)
	n.edge, n.seen = make([]int, nodes), make([]int, nodes)
	n.start()
	for n.improve() {
	}
}

// start makes the first flow: everybody keeps everything, what is free goes to the least loaded, and then each class is
// levelled by itself, those first that leave the least choice. Any flow would do. This one is found quickly, and from it
// the way is short: a best plan that is in effect already comes out unchanged.
func (n *network) start() {
	order := make([]*class, len(n.classes))
	for i := range n.classes {
		c := &n.classes[i]
		order[i] = c
		for k, m := range c.members {
			c.count[k] = len(c.owned[k])
			n.load[m] += c.count[k]
		}
	}
	slices.SortStableFunc(order, func(a, b *class) int { return len(a.members) - len(b.members) })
	for _, c := range order {
		for range c.free {
			_, to := n.extremes(c)
			c.count[to]++
			n.load[c.members[to]]++
		}
		for {
			from, to := n.extremes(c)
			if from < 0 || n.load[c.members[from]] < n.load[c.members[to]]+2 {
				break
			}
			c.count[from]--
			n.load[c.members[from]]--
			c.count[to]++
			n.load[c.members[to]]++
		}
	}
}

// extremes returns the most loaded member that has a partition of the class, -1 if none has, and the least loaded member.
func (n *network) extremes(c *class) (most, least int) {
	most = -1
	for k, m := range c.members {
		if c.count[k] > 0 && (most < 0 || n.load[m] > n.load[c.members[most]]) {
			most = k
		}
		if n.load[m] < n.load[c.members[least]] {
			least = k
		}
	}
	return most, least
}

// improve turns the flow along negative cycles and reports false if there is none. It is Bellman's and Ford's
// search from all nodes at once: it comes to rest if and only if no cycle is negative, and any cycle among the last edges
// of the ways found is a negative one.
func (n *network) improve() bool {
	clear(n.cost)
	for v := range n.from {
		n.from[v] = -1
	}
	for n.relax() {
		if n.turn() {
			return true
		}
	}
	return false
}

// relax lets every edge shorten the way to its end once, and reports whether one did.
func (n *network) relax() bool {
	shorter := false
	try := func(u, v, cost, edge int) {
		if cost += n.cost[u]; cost < n.cost[v] {
			n.cost[v], n.from[v], n.edge[v] = cost, u, edge
			shorter = true
		}
	}
	sink := len(n.cost) - 1
	for m, load := range n.load {
		if load > 0 {
			try(sink, m, -(load-1)*n.unit, 0)
		}
	}
	for i := range n.classes {
		c, v := &n.classes[i], len(n.load)+i
		for k, m := range c.members {
			switch count := c.count[k]; {
			case count > len(c.owned[k]):
				try(m, v, 0, k)
			case count > 0:
				try(m, v, 1, k)
			}
		}
		for k, m := range c.members {
			if c.count[k] < len(c.owned[k]) {
				try(v, m, -1, k)
			} else {
				try(v, m, 0, k)
			}
		}
	}
	for m, load := range n.load {
		try(m, sink, load*n.unit, 0)
	}
	return shorter
}

// turn moves one partition along each cycle among the last edges, and reports whether there was one. The cycles share no
// node, so that a turn doesn't change what the others cost.
func (n *network) turn() bool {
	clear(n.seen)
	turned := false
	for start := range n.from {
		walk, v := start+1, start
		for v >= 0 && n.seen[v] == 0 {
			n.seen[v] = walk
			v = n.from[v]
		}
		if v < 0 || n.seen[v] != walk {
			continue // it ends, or it joins an earlier walk
		}
		for first := v; ; {
			n.push(n.from[v], v)
			if v = n.from[v]; v == first {
				break
			}
		}
		turned = true
	}
	return turned
}

// push sends one partition more along the last edge u → v of the way to v.
func (n *network) push(u, v int) {
	sink, members := len(n.cost)-1, len(n.load)
	switch {
	case v == sink:
		n.load[u]++
	case u == sink:
		n.load[v]--
	case u >= members:
		n.classes[u-members].count[n.edge[v]]++
	default:
		n.classes[v-members].count[n.edge[v]]--
	}
}
