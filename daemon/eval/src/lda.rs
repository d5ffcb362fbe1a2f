//! Latent Dirichlet allocation (Blei, Ng & Jordan 2003): documents as mixtures of topics, topics as
//! distributions over words.
//!
//! Inference is collapsed variational of order zero, CVB0 (Asuncion, Welling, Smyth & Teh, UAI
//! 2009): each word of a document has a distribution over the topics, and is updated from the
//! expected counts of all others. It needs no random numbers beyond its start, which a fixed seed
//! gives; of several starts the one with the highest likelihood is kept. Equal documents are
//! computed once and counted as often as there are.

use std::collections::BTreeMap;

/// Number of topics.
pub const TOPICS: usize = 6;
/// α: of the Dirichlet prior of a document's mixture of topics.
pub const ALPHA: f64 = 1.0 / 6.0;
/// β: of the Dirichlet prior of a topic's distribution over words.
pub const BETA: f64 = 1.0 / 13.0;

/// Passes over the documents at most.
const PASSES: usize = 300;
/// Passes end when words change their topics by less than this on average.
const CHANGE: f64 = 1e-4;
/// Starts, of which the likeliest is kept.
const STARTS: u64 = 8;

/// A share for each topic; they add up to 1.
pub type Mixture = [f64; TOPICS];

/// A document: the words in it, ascending, with how often each occurs.
pub type Document = Vec<(u16, u32)>;

/// Topics, the one with the most words first.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// For each word, how likely each topic gives it.
    words: Vec<Mixture>,
    /// Logarithm of the likelihood of the documents, per word.
    pub likelihood: f64,
}

struct Weighted<'d> {
    document: &'d Document,
    copies: f64,
    /// For each of its words, the distribution over topics.
    topics: Vec<Mixture>,
}

impl Model {
    /// Finds topics in documents over words below `vocabulary`; the result does not depend on
    /// their order. Words beyond the vocabulary are left out.
    #[must_use]
    pub fn fit(documents: &[Document], vocabulary: usize) -> Self {
        let mut distinct: BTreeMap<&Document, u32> = BTreeMap::new();
        for document in documents {
            *distinct.entry(document).or_default() += 1;
        }
        let fits = (0..STARTS).map(|seed| fit_once(&distinct, vocabulary, seed));
        let best = fits.reduce(|a, b| if b.likelihood > a.likelihood { b } else { a });
        best.unwrap_or(Self {
            words: Vec::new(),
            likelihood: 0.0,
        })
    }

    /// Probability of each word under a topic.
    pub fn topic(&self, topic: usize) -> impl Iterator<Item = f64> + '_ {
        self.words
            .iter()
            .map(move |mix| mix.get(topic).copied().unwrap_or(0.0))
    }

    /// The topic that most words of a document have, each word taken for the topic that it most
    /// likely has there; of several the one with more words over all. `None` without known words.
    #[must_use]
    pub fn label(&self, document: &Document) -> Option<usize> {
        let mut words = [0u32; TOPICS];
        for (&(word, count), mix) in document.iter().zip(self.infer(document)) {
            let known = usize::from(word) < self.words.len();
            if let Some(votes) = words.get_mut(first_max(&mix)?).filter(|_| known) {
                *votes += count;
            }
        }
        first_max(&words.map(f64::from)).filter(|_| words != [0; TOPICS])
    }

    /// The distributions of a document's words over the topics.
    fn infer(&self, document: &Document) -> Vec<Mixture> {
        let mut topics = vec![[1.0 / TOPICS as f64; TOPICS]; document.len()];
        for _ in 0..PASSES {
            let mut change = 0.0;
            let mut mixture = mixture_of(document, &topics);
            for (&(word, count), own) in document.iter().zip(&mut topics) {
                let Some(words) = self.words.get(usize::from(word)) else {
                    continue;
                };
                let next = normalised(&weigh(words, &mixture, own));
                change += replace(&mut mixture, own, next, f64::from(count));
            }
            if change < CHANGE {
                break;
            }
        }
        topics
    }
}

fn fit_once(distinct: &BTreeMap<&Document, u32>, vocabulary: usize, seed: u64) -> Model {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut by_word = vec![[0.0; TOPICS]; vocabulary];
    let mut all = [0.0; TOPICS];
    let mut total = 0.0;
    let mut entries: Vec<Weighted<'_>> = distinct
        .iter()
        .map(|(document, copies)| Weighted {
            document,
            copies: f64::from(*copies),
            topics: document
                .iter()
                .map(|_| normalised(&[(); TOPICS].map(|()| exponential(&mut random))))
                .collect(),
        })
        .collect();
    for entry in &entries {
        for (&(word, count), mix) in entry.document.iter().zip(&entry.topics) {
            let count = f64::from(count) * entry.copies;
            if let Some(words) = by_word.get_mut(usize::from(word)) {
                add(words, mix, count);
                add(&mut all, mix, count);
                total += count;
            }
        }
    }
    let prior = BETA * vocabulary as f64;
    for _ in 0..PASSES {
        let mut change = 0.0;
        for entry in &mut entries {
            let mut mixture = mixture_of(entry.document, &entry.topics);
            for (&(word, count), own) in entry.document.iter().zip(&mut entry.topics) {
                let Some(words) = by_word.get_mut(usize::from(word)) else {
                    continue;
                };
                let mut likely = [0.0; TOPICS];
                for (((likely, word), all), own) in
                    likely.iter_mut().zip(&*words).zip(&all).zip(&*own)
                {
                    *likely = (word - own + BETA).max(0.0) / (all - own + prior);
                }
                let before = *own;
                let next = normalised(&weigh(&likely, &mixture, own));
                let count = f64::from(count);
                change += entry.copies * replace(&mut mixture, own, next, count);
                for counts in [&mut *words, &mut all] {
                    add(counts, &before, -count * entry.copies);
                    add(counts, &next, count * entry.copies);
                }
            }
        }
        if change < CHANGE * total {
            break;
        }
    }
    model(&entries, &by_word, all, prior, total)
}

/// Puts the topics in order and computes the likelihood.
fn model(
    entries: &[Weighted<'_>],
    by_word: &[Mixture],
    all: Mixture,
    prior: f64,
    total: f64,
) -> Model {
    let mut order: Vec<(f64, usize)> = all.iter().copied().zip(0..).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let sorted = |mix: &Mixture| {
        let mut sorted = [0.0; TOPICS];
        for (to, (_, from)) in sorted.iter_mut().zip(&order) {
            *to = mix.get(*from).copied().unwrap_or(0.0);
        }
        sorted
    };
    let probability = |mix: &Mixture| {
        let mut probability = [0.0; TOPICS];
        for ((to, count), all) in probability.iter_mut().zip(mix).zip(&all) {
            *to = (count + BETA) / (all + prior);
        }
        sorted(&probability)
    };
    let words: Vec<Mixture> = by_word.iter().map(probability).collect();
    let mut likelihood = 0.0;
    for entry in entries {
        let mut mixture = sorted(&mixture_of(entry.document, &entry.topics));
        mixture.iter_mut().for_each(|share| *share += ALPHA);
        let mixture = normalised(&mixture);
        for &(word, count) in entry.document {
            if let Some(words) = words.get(usize::from(word)) {
                let of_word: f64 = words.iter().zip(&mixture).map(|(w, m)| w * m).sum();
                likelihood += entry.copies * f64::from(count) * of_word.ln();
            }
        }
    }
    Model {
        words,
        likelihood: likelihood / f64::max(total, 1.0),
    }
}

/// How many words of a document have each topic.
fn mixture_of(document: &Document, topics: &[Mixture]) -> Mixture {
    let mut mixture = [0.0; TOPICS];
    for (&(_, count), mix) in document.iter().zip(topics) {
        add(&mut mixture, mix, f64::from(count));
    }
    mixture
}

/// The topics of a word by what the word says and what the rest of the document says.
fn weigh(likely: &Mixture, mixture: &Mixture, own: &Mixture) -> Mixture {
    let mut weights = [0.0; TOPICS];
    for (((to, likely), all), own) in weights.iter_mut().zip(likely).zip(mixture).zip(own) {
        *to = likely * (all - own + ALPHA).max(0.0);
    }
    weights
}

/// Replaces a word's distribution; returns by how much it changed, times its count.
fn replace(mixture: &mut Mixture, own: &mut Mixture, next: Mixture, count: f64) -> f64 {
    let change: f64 = own.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
    add(mixture, own, -count);
    add(mixture, &next, count);
    *own = next;
    change * count
}

fn add(to: &mut Mixture, mix: &Mixture, count: f64) {
    for (to, share) in to.iter_mut().zip(mix) {
        *to += count * share;
    }
}

fn normalised(weights: &Mixture) -> Mixture {
    let sum: f64 = weights.iter().sum();
    if sum > 0.0 {
        weights.map(|weight| weight / sum)
    } else {
        [1.0 / TOPICS as f64; TOPICS]
    }
}

fn first_max(values: &Mixture) -> Option<usize> {
    let better = |best: (usize, f64), next: (usize, f64)| if next.1 > best.1 { next } else { best };
    let values = values.iter().copied().enumerate();
    values.reduce(better).map(|best| best.0)
}

/// Exponentially distributed; normalised, such numbers are uniform over the mixtures.
fn exponential(random: &mut fastrand::Rng) -> f64 {
    -(1.0 - random.f64()).ln() + f64::MIN_POSITIVE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents of 20 words, each from one of six topics of two words that only it has, and one
    /// word in five from anywhere.
    fn planted() -> (Vec<Document>, Vec<usize>) {
        let mut random = fastrand::Rng::with_seed(99);
        let mut below = |n: usize| random.usize(..n);
        let (mut documents, mut topics) = (Vec::new(), Vec::new());
        for _ in 0..600 {
            let topic = below(6);
            let mut counts: BTreeMap<u16, u32> = BTreeMap::new();
            for _ in 0..20 {
                let word = if below(5) == 0 {
                    below(12)
                } else {
                    2 * topic + below(2)
                };
                *counts.entry(word as u16).or_default() += 1;
            }
            documents.push(counts.into_iter().collect());
            topics.push(topic);
        }
        (documents, topics)
    }

    #[test]
    fn planted_topics_are_found_again() {
        let (documents, planted) = planted();
        let model = Model::fit(&documents, 12);
        let mut agree = [[0; 6]; 6];
        for (document, topic) in documents.iter().zip(planted) {
            agree[topic][model.label(document).unwrap()] += 1;
        }
        let mut found: Vec<usize> = Vec::new();
        let mut right = 0;
        for row in agree {
            let most = *row.iter().max().unwrap();
            right += most;
            found.push(row.iter().position(|n| *n == most).unwrap());
        }
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2, 3, 4, 5]);
        assert!(right >= 590, "{agree:?}");
        // The two words of a topic carry it, as they were planted.
        for topic in 0..6 {
            let mut words: Vec<f64> = model.topic(topic).collect();
            assert!((words.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            words.sort_by(|a, b| b.total_cmp(a));
            assert!(words[0] > 0.35 && words[1] > 0.35, "{words:?}");
        }
    }

    #[test]
    fn the_order_of_documents_and_their_copies_do_not_matter() {
        let (mut documents, _) = planted();
        let model = Model::fit(&documents, 12);
        documents.reverse();
        assert_eq!(Model::fit(&documents, 12), model);
    }

    #[test]
    fn copies_weigh_as_much_as_documents() {
        let document = |word: u16| vec![(word, 3)];
        let mut documents = vec![document(0); 90];
        documents.extend(vec![document(1); 10]);
        let model = Model::fit(&documents, 2);
        assert_eq!(model.label(&document(0)), Some(0));
        assert_ne!(model.label(&document(1)), Some(0));
        assert!(model.topic(0).next().unwrap() > 0.99);
    }

    #[test]
    fn nothing_has_no_topic() {
        let empty = Model::fit(&[], 0);
        assert_eq!(empty.label(&vec![]), None);
        let (documents, _) = planted();
        assert_eq!(Model::fit(&documents, 12).label(&vec![]), None);
    }
}
