//! The networks that can be trained, evaluated and used to predict.

mod resnet;
mod small;

use clap::ValueEnum;
use gular_runtime::torch::WeightsFile;
use tch::Tensor;
use tch::nn::Path;

use resnet::{Depth, Resnet};
use small::Small;

/// Which network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    /// Three blocks of convolution, for a laptop and pictures of 64 pixels
    Small,
    /// torchvision's ResNet-18
    Resnet18,
    /// torchvision's ResNet-50
    Resnet50,
}

impl Architecture {
    /// The network that has variables of these names, if it is one of ours.
    pub(crate) fn of(weights: &WeightsFile<'_>) -> Option<Self> {
        let has = |name: &str| weights.shape(name).is_some();
        // The last block of ResNet-18 is `layer4.1`, of ResNet-34 and 50 `layer4.2`; only the
        // blocks of 50 and deeper have three convolutions, and 101 has 23 of them in `layer3`.
        let resnet = has("conv1.weight") && has("fc.weight") && has("layer4.1.conv2.weight");
        match () {
            () if has("block0.conv.weight") => Some(Self::Small),
            () if resnet && !has("layer4.2.conv2.weight") => Some(Self::Resnet18),
            () if resnet && has("layer4.2.conv3.weight") && !has("layer3.6.conv3.weight") => {
                Some(Self::Resnet50)
            }
            () => None,
        }
    }

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        ["small", "resnet18", "resnet50"][self as usize]
    }

    /// The weights of its first layer, of shape `[_, channels, _, _]`.
    pub(crate) fn first(self) -> &'static str {
        match self {
            Self::Small => "block0.conv.weight",
            Self::Resnet18 | Self::Resnet50 => "conv1.weight",
        }
    }

    /// The weights of its last layer, of shape `[classes, _]`.
    pub(crate) fn last(self) -> &'static str {
        match self {
            Self::Small => "last.weight",
            Self::Resnet18 | Self::Resnet50 => "fc.weight",
        }
    }

    /// Side of the pictures it is made for, in pixels.
    pub(crate) fn size(self) -> u32 {
        match self {
            Self::Small => 64,
            Self::Resnet18 | Self::Resnet50 => 224,
        }
    }
}

/// A network with its variables.
#[derive(Debug)]
pub(crate) enum Network {
    Small(Small),
    Resnet(Box<Resnet>),
}

impl Network {
    /// Makes a network with variables below `root`, drawn at random; `dropout` is the share of the
    /// last layer's inputs that is left out while training.
    pub(crate) fn new(
        kind: Architecture,
        root: &Path<'_>,
        channels: i64,
        n_classes: i64,
        dropout: f64,
    ) -> Self {
        let resnet =
            |depth| Self::Resnet(Box::new(Resnet::new(depth, root, channels, n_classes, dropout)));
        match kind {
            Architecture::Small => Self::Small(Small::new(root, channels, n_classes, dropout)),
            Architecture::Resnet18 => resnet(Depth::D18),
            Architecture::Resnet50 => resnet(Depth::D50),
        }
    }

    /// Scores of shape `[n, classes]` for images `[n, channels, h, w]`.
    pub(crate) fn forward(&self, images: &Tensor, train: bool) -> Tensor {
        match self {
            Self::Small(net) => net.forward(images, train),
            Self::Resnet(net) => net.forward(images, train),
        }
    }
}
