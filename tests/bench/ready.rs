//! W8: from the start of the process to its first watch, where there are no nodes.

use anyhow::Result;

use crate::course::Course;
use crate::figure::{Figure, Key, Size, Subject};
use crate::measured::Launch;
use crate::start::{self, World};
use crate::{bare, options};

/// Compiles the shipped module into the cache that all further starts use: the cold start.
pub(crate) async fn compile(course: &mut Course<'_>) -> Result<()> {
    let world = World::set(0).await?;
    let launch = course.launch(Subject::Ccm);
    let run = "W8, 0 nodes, cold";
    let took = start::until_watching(course.options, &world, &launch, run).await?;
    if course.options.has(options::Workload::W8) {
        let figure = Figure::time(key(Subject::Ccm, "first watch, cold cache"), took);
        course.add(figure.at_most(2_000.0).shown());
    }
    Ok(())
}

pub(crate) async fn measure(course: &mut Course<'_>) -> Result<()> {
    let world = World::set(0).await?;
    let (list, _) = bare::list(&world.cluster).await?;
    course.add(Figure::time(key(Subject::Bare, "bare list"), list));
    // The code that the first start has cached is compiled again in a folder of its own.
    let folder = tempfile::TempDir::new()?;
    for subject in course.in_turn(course.options.subjects(false)) {
        let warm = course.launch(subject);
        let mut starts = vec![("warm", warm)];
        if subject == Subject::Ccm && !course.is_first() {
            let cache = folder.path();
            starts.insert(0, ("cold", Launch { cache, ..warm }));
        }
        let mut measured = Vec::new();
        for (temperature, launch) in starts {
            let run = course.run(format!("W8, 0 nodes, {}, {temperature}", subject.name()));
            let took = start::until_watching(course.options, &world, &launch, &run).await?;
            measured.push((temperature, took));
        }
        for (temperature, took) in measured {
            let what = format!("first watch, {temperature} cache");
            let limit = if temperature == "cold" {
                2_000.0
            } else {
                500.0
            };
            let figure = Figure::time(key(subject, &what), took).over_peers(0.5, None);
            course.add(match subject {
                Subject::Ccm => figure.at_most(limit).shown(),
                _ => figure.shown(),
            });
        }
    }
    Ok(())
}

fn key(subject: Subject, what: &str) -> Key {
    Key::new("W8", Size::Nodes(0), subject, what)
}
