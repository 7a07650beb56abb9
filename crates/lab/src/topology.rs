//! [`Topology`]: the arrangements of hosts between which tunnels are measured.

/// The arrangement of hosts and gateways (figures 2 to 4 of the 2002 study), and the ends of associations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topology {
    /// Two hosts, which are their own gateways.
    HostHost,
    /// Two hosts, each behind a gateway.
    Gateways,
    /// Three hosts on slow links, which are their own gateways, and one behind a gateway.
    RoadWarrior,
    /// The same hosts, all of them their own gateways: the gateway between them forwards packets that it cannot read.
    RoadWarriorEnds,
}

impl Topology {
    /// All topologies.
    pub const ALL: [Self; 4] = [Self::HostHost, Self::Gateways, Self::RoadWarrior, Self::RoadWarriorEnds];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostHost => "host-host",
            Self::Gateways => "gateways",
            Self::RoadWarrior => "road-warrior",
            Self::RoadWarriorEnds => "road-warrior-ends",
        }
    }

    /// Returns the name of the figure in results, which give the ends of associations separately.
    pub const fn figure(self) -> &'static str {
        match self {
            Self::RoadWarriorEnds => "road-warrior",
            other => other.name(),
        }
    }

    /// Returns the end of the last host's associations.
    pub const fn association(self) -> &'static str {
        match self {
            Self::HostHost | Self::RoadWarriorEnds => "end-to-end",
            Self::Gateways | Self::RoadWarrior => "gateway",
        }
    }
}
